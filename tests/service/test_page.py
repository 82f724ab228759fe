"""The page in a real browser, over a live service."""

import shutil
from urllib.parse import parse_qs, urlparse

import httpx
import pytest

import rerank_plugin as rp
from rerank_plugin.corpora import queries
from rerank_plugin.service.settings import ServiceConfig
from tests.service.live import serving

CHROMIUM = shutil.which("chromium")
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
HOSTILE = (
    rp.Document("script", "<script>window.bad = 1</script> statins", "<img src=x onerror='window.bad = 1'> Statins."),
    rp.Document("rtl", "الستاتينات statins", "تخفض statins الكوليسترول."),
    rp.Document("untitled", "", "Statins lower cholesterol in an abstract without a title."),
    rp.Document("long", "Statins" + "andothers" * 60, "Statins 🙂 and statins lower LDL cholesterol."),
    *(rp.Document(f"d{at}", f"Cholesterol {at}", "Statins lower cholesterol. " * at) for at in range(1, 15)),
)
METADATA = {
    "script": {
        "authors": ["<b>One</b> A", "Two B", "Three C", *(f"Author {at}" for at in range(10))],
        "journal": "<i>J</i> Statins", "languages": ["ger"], "types": ["Meta-Analysis"],
        "mesh": ["Cholesterol, LDL", "Humans"], "retracted": True, "url": "https://pubmed.ncbi.nlm.nih.gov/1/",
    },
    "rtl": {"authors": ["One A"], "retracted": False, "url": "http://www.ncbi.nlm.nih.gov/pubmed/25329299"},
    "long": {"url": "https://doi.org.example.org/10.1000/x"},
}  # fmt: skip
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's Chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def click_log(tmp_path_factory):
    return tmp_path_factory.mktemp("clicks") / "clicks.tsv"


@pytest.fixture(scope="module")
def indexes(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("page") / "index")
    dated = (METADATA.get(one.id, {}) | {"date": f"{2000 + at}-03"} for at, one in enumerate(HOSTILE))
    rp.build_index([one._replace(metadata=more) for one, more in zip(HOSTILE, dated)], folder)
    return {"statins": folder}


@pytest.fixture(scope="module")
def address(indexes, click_log):
    rerankers = {"delta": "delta", "titles": "bm25-title"}
    with serving(ServiceConfig(indexes, rerankers, deadline=60, click_log=str(click_log))) as client:
        yield str(client.base_url)


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture
def page(browser):
    """A page that fails its test where a script fails, the policy is broken, or another host is asked."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page, faults, hosts = context.new_page(), [], set()
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: "Content Security Policy" in said.text and faults.append(said.text))
    page.on("request", lambda asked: hosts.add(urlparse(asked.url).hostname))
    yield page
    context.close()
    assert not faults and hosts <= {"127.0.0.1", None}


def small(page):
    page.set_viewport_size({"width": 360, "height": 800})


def nothing_in_the_way(page):
    """axe-core finds nothing, and nothing is wider than the window."""
    return violations(page) == [] and page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def shown(page, address, question="?query=statins"):
    page.goto(f"{address}/{question}")
    page.wait_for_selector("#side-right .hits > li")


def opened(page, place="#side-right .hits > li", nth=0):
    page.locator(f"{place} .open").nth(nth).click()
    page.wait_for_selector(".sentence")


def answered(address, path, index="statins", **asked):
    """What the service says itself."""
    return httpx.get(f"{address}/v1/{index}/{path}", params=asked).json()


def wait_for_address(page, name, values):
    """Playwright learns of a changed address a moment after the page."""
    page.wait_for_url(lambda url: parse_qs(urlparse(url).query).get(name, []) == values)


def documents(page, side):
    return page.eval_on_selector_all(f"#side-{side} .hits > li", "rows => rows.map(row => row.dataset.docid)")


def violations(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    return [(one["id"], one["nodes"][0]["html"]) for one in axe.Axe().run(page).response["violations"]]


def test_both_sides_are_the_service_s_rankings_and_the_lines_join_them(page, address):
    shown(page, address)
    for side, reranker in (("left", "none"), ("right", "delta")):
        answer = answered(address, "search", query="statins", reranker=reranker)
        assert documents(page, side) == [one["docid"] for one in answer["candidates"]]
    joined = page.eval_on_selector_all("#lines path:not(.beyond)", "paths => paths.map(path => path.dataset.line)")
    assert set(joined) == set(documents(page, "left")) & set(documents(page, "right"))
    page.select_option("#left", "titles")
    page.wait_for_selector("#side-left h2:has-text('titles')")


def test_a_document_is_explained_and_the_address_holds_it(page, address):
    shown(page, address)
    docid = documents(page, "right")[0]
    opened(page)
    wait_for_address(page, "doc", [docid])
    answer = answered(address, "explain", query="statins", docid=docid, reranker="delta")
    assert page.text_content(".sentence") == answer["sentence"]
    assert page.text_content(".abstract") == answer["abstract"]
    page.locator(".matrix td[tabindex='0']").focus()
    assert "statins × " in page.text_content(".reading")
    page.reload()
    page.wait_for_selector(".sentence")
    assert page.text_content(".sentence") == answer["sentence"]
    page.keyboard.press("Escape")
    wait_for_address(page, "doc", [])


def test_a_click_is_logged_with_what_was_shown(page, address, click_log):
    shown(page, address, "?query=lower cholesterol")
    ids = documents(page, "right")
    opened(page, nth=1)
    with page.expect_response("**/click") as click:
        page.keyboard.press("Escape")
    assert click.value.status == 204
    header, *lines = (line.split("\t") for line in click_log.read_text().splitlines())
    logged = [dict(zip(header, line)) for line in lines if line[0] == "lower cholesterol"]
    assert [one["document"] for one in logged] == ids
    assert [one["document"] for one in logged if one["summary_clicks"] == "1"] == [ids[1]]


def test_what_documents_hold_is_text(page, address):
    shown(page, address, "?query=statins&hits=20")
    titles = page.eval_on_selector_all("#side-right h3", "titles => titles.map(title => title.textContent)")
    assert {f"Retracted {HOSTILE[0].title}", HOSTILE[1].title, "No title", HOSTILE[3].title} <= set(titles)
    for docid in ("script", "rtl", "untitled", "long"):
        opened(page, f"#side-right [data-docid={docid}]")
        assert page.text_content(".abstract") == next(one.abstract for one in HOSTILE if one.id == docid)
        page.keyboard.press("Escape")
    assert page.evaluate("window.bad") is None


def test_what_is_stored_is_shown(page, address):
    shown(page, address, "?query=statins&hits=20")
    row, known = page.locator("#side-right [data-docid=script]"), METADATA["script"]
    line = "<b>One</b> A, Two B, Three C, et al. · <i>J</i> Statins · 2000 · script at PubMed, in a new tab ↗"
    assert row.locator(".details").text_content() == line
    assert page.locator("#side-right .retracted").all_text_contents() == ["Retracted"]
    opened(page, "#side-right [data-docid=script]")
    page.click(".authors summary")
    for text in (", ".join(known["authors"]), f"{known['journal']} · 2000-03 · German · script · PubMed", "Retracted"):
        assert page.locator("dialog").get_by_text(text).is_visible()
    assert page.locator(".headings li").all_text_contents() == [*known["types"], *known["mesh"]]


def test_only_addresses_at_pubmed_and_of_dois_are_links(page, address):
    bad = ("javascript:alert(1)//pubmed.ncbi.nlm.nih.gov/1/", "https://doi.org@example.org/1", "//doi.org/10.1/x", 7)

    def answer(route):
        answered = route.fetch()
        body = answered.json()
        for one, url in zip((one for one in body["candidates"] if one["docid"] not in METADATA), bad):
            one["doc"]["url"] = url
        route.fulfill(response=answered, json=body)

    page.route("**/v1/statins/search*", answer)
    shown(page, address, "?query=statins&hits=20")
    links = "links => links.map(one => [one.href, one.target, one.rel])"
    expected = [[METADATA[id]["url"], "_blank", "noopener noreferrer"] for id in ("rtl", "script")]
    assert sorted(page.eval_on_selector_all("#side-right .details a", links)) == expected


def test_notes_are_said_once_above_the_results(page, address):
    def answer(route):
        answered = route.fetch()
        mine = ["of a reranker"] if "reranker=delta" in route.request.url else []
        route.fulfill(response=answered, json=answered.json() | {"notes": ["<b>AND</b> is read as a word", *mine]})

    small(page)
    page.route("**/v1/statins/search*", answer)
    shown(page, address)
    notes = page.get_by_role("status").locator("p").all_text_contents()
    assert notes == ["<b>AND</b> is read as a word", "of a reranker"] and nothing_in_the_way(page)


def test_the_description_of_the_api_opens(page, address):
    page.goto(address)
    page.click("text=API documentation")
    page.wait_for_selector("[id^=operations-search-search_index]")
    page.click("text=Search and compare")
    page.wait_for_selector("#examples button")


def test_judgements_stay_and_are_exported(page, address):
    shown(page, address, "?query=lower statins")
    docid = documents(page, "right")[1]
    page.locator(f"#side-right [data-docid='{docid}'] .judge").first.click()
    page.reload()
    page.wait_for_selector("#side-left .hits > li")
    pressed = page.locator(f"[data-docid='{docid}'] [aria-pressed=true]")
    assert pressed.count() == (docid in documents(page, "left")) + 1

    def saved(button):
        with page.expect_download() as download:
            page.click(button)
        return download.value.path().read_text("utf-8").splitlines()

    assert saved("#qrels") == [f"lower_statins 0 {docid} 1"]
    run = [line.split() for line in saved("#run-right")]
    assert [one[2] for one in run] == documents(page, "right") and {one[0] for one in run} == {"lower_statins"}
    assert [int(one[3]) for one in run] == list(range(1, 11))


def test_filters_and_the_order_by_date_are_sent_and_kept_in_the_address(page, address):
    shown(page, address)
    page.click("#filters summary")
    page.fill("[data-filter=year]", "2000-2003")
    page.select_option("#sort", "date")
    page.click("button.main")
    page.wait_for_selector("#side-right .hits:not(:has(> :nth-child(5)))")
    wait_for_address(page, "filter", ["year:2000-2003"])
    wait_for_address(page, "sort", ["date"])
    assert documents(page, "right") == ["long", "untitled", "rtl", "script"]  # the newest first
    dates = page.locator("#side-right .details").all_text_contents()
    assert [one.split(" · ")[-2] for one in dates] == ["2003", "2002", "2001", "2000"]
    opened(page)
    page.go_back()
    page.go_back()
    page.wait_for_selector("#side-right .hits > :nth-child(10)")


def test_the_keyboard_is_enough(page, address):
    page.goto(address)
    page.wait_for_selector("#examples button")
    page.focus("#query")
    page.keyboard.type("statins")
    page.keyboard.press("Enter")
    page.wait_for_selector("#side-right .hits > li")
    for _ in range(100):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.open')"):
            break
    page.keyboard.press("Enter")
    page.wait_for_selector(".sentence")
    page.keyboard.press("Escape")
    page.wait_for_function("document.activeElement.matches('.open')")


def test_overload_is_said_and_asked_again(page, address):
    refusals = [429]

    def answer(route):
        if refusals:
            refusals.pop()
            route.fulfill(status=429, headers={"Retry-After": "2"}, json={"error": "busy"})
        else:
            route.continue_()

    small(page)
    page.route("**/v1/statins/search*", answer)
    page.goto(f"{address}/?query=statins")
    page.wait_for_selector("#status .overload")
    assert nothing_in_the_way(page)
    page.wait_for_selector("#side-right .hits > li")
    assert not refusals and page.locator(".overload").count() == 0


def test_errors_and_empty_answers_are_said(page, address):
    small(page)
    page.goto(f"{address}/?query=zzzz")
    page.wait_for_selector(".notice")
    assert nothing_in_the_way(page)
    page.goto(f"{address}/?query=statins&filter=year:never")
    page.wait_for_selector("#status .error")
    assert "year:never" in page.text_content("#status .error") and nothing_in_the_way(page)


def test_a_token_is_asked_for_and_what_is_late_is_said(page, indexes):
    small(page)
    with serving(ServiceConfig(indexes, {"delta": "delta"}, token="secret", deadline=1e-6)) as client:
        page.goto(f"{client.base_url}/?query=statins")
        page.wait_for_selector("#status [type=password]")
        assert nothing_in_the_way(page)
        page.fill("#status [type=password]", "secret")
        page.keyboard.press("Enter")
        page.wait_for_selector("#side-right .notice")
        assert "deadline" in page.text_content("#side-right .notice") and nothing_in_the_way(page)
        assert documents(page, "right") == documents(page, "left") != []


@pytest.mark.real_data
def test_a_real_collection(page, real_data, tmp_path):
    """The queries that the page suggests for NFCorpus, and the explanation of the document that won most."""
    source = f"{real_data}/nfcorpus"
    rp.build_index(source, tmp_path / "nfcorpus")
    with serving(ServiceConfig({"nfcorpus": str(tmp_path / "nfcorpus")}, {"delta": "delta"}, deadline=60)) as client:
        page.goto(str(client.base_url))
        page.wait_for_selector("#examples button")
        first = page.locator("#examples button").first
        query = first.text_content()
        assert query in {one.text for one in queries(f"{source}:test")}
        first.click()
        page.wait_for_selector("#side-right .hits > li")
        answer = answered(client.base_url, "search", "nfcorpus", query=query, reranker="delta")
        assert documents(page, "right") == [one["docid"] for one in answer["candidates"]]
        assert nothing_in_the_way(page)
        risen = max(answer["candidates"], key=lambda one: one["first_stage_rank"] - one["rank"])
        opened(page, f"#side-right [data-docid='{risen['docid']}']")
        assert str(risen["first_stage_rank"]) in page.text_content(".sentence") and violations(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_in_the_way(page, address, scheme, width):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(address)
    page.wait_for_selector("#examples button")
    assert violations(page) == []
    shown(page, address, "?query=statins&hits=20")
    assert nothing_in_the_way(page)
    opened(page, "#side-right [data-docid=script]")
    assert violations(page) == []
    assert page.evaluate("(one => one.scrollWidth <= one.clientWidth)(document.querySelector('dialog'))")
