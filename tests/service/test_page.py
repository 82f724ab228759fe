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
    rp.Document("script", "<script>window.bad = 1</script> statins", "<video src=x onerror='window.bad = 1'> Statins."),
    rp.Document("rtl", "الستاتينات statins", "تخفض statins الكوليسترول."),
    rp.Document("untitled", "", "Statins lower cholesterol in an abstract without a title."),
    rp.Document("long", "Statins" + "andothers" * 60, "Statins 🙂 and statins lower LDL cholesterol."),
    rp.Document("noticed", "A structured trial", "BACKGROUND: 🙂 Why. METHODS (A): We looked."),
    *(rp.Document(f"d{n}", f"Cholesterol {n}", "Statins lower cholesterol. " * n) for n in range(1, 15)),
)
METADATA = {
    "script": {
        "authors": ["<b>One</b> A", "Two B", "Three C", *(f"Author {n}" for n in range(10))],
        "journal": "<i>J</i> Statins", "languages": ["ger"], "types": ["Meta-Analysis"],
        "mesh": ["Cholesterol, LDL", "Humans"], "retracted": True, "url": "https://pubmed.ncbi.nlm.nih.gov/1/",
    },
    "rtl": {"authors": ["One A"], "retracted": False, "url": "http://www.ncbi.nlm.nih.gov/pubmed/25329299"},
    "noticed": {
        "authors": ["Müller K"], "journal": "J Tests", "languages": ["spa"], "types": ["Systematic Review"],
        "mesh": ["Humans"], "notices": ["Erratum in: J Tests. 2020;1(2):3. PMID: 12"],
    },
    "long": {"url": "https://doi.org.example.org/10.1000/x"},
}  # fmt: skip
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's Chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def click_log(tmp_path_factory):
    return tmp_path_factory.mktemp("clicks") / "clicks.tsv"


@pytest.fixture(scope="module")
def indexes(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("page") / "index")
    dated = [
        document._replace(metadata=METADATA.get(document.id, {}) | {"date": f"{2000 + place}-03"})
        for place, document in enumerate(HOSTILE)
    ]
    rp.build_index(dated, folder)
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
    """A page that fails its test if a script fails, the policy is violated, or another host is requested."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page, faults, hosts = context.new_page(), [], set()
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda line: "Content Security Policy" in line.text and faults.append(line.text))
    page.on("request", lambda request: hosts.add(urlparse(request.url).hostname))
    yield page
    context.close()
    assert not faults and hosts <= {"127.0.0.1", None}


def small(page):
    page.set_viewport_size({"width": 360, "height": 800})


def accessible(page):
    """Whether axe-core finds no violation, and nothing is wider than the window."""
    return violations(page) == [] and page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def search(page, address, parameters="?query=statins"):
    page.goto(f"{address}/{parameters}")
    page.wait_for_selector("#side-right .hits > li")


def open_document(page, hit="#side-right .hits > li", nth=0):
    page.locator(f"{hit} .open").nth(nth).click()
    page.wait_for_selector(".sentence")


def answer_of(address, path, index="statins", **parameters):
    """The service's own answer."""
    return httpx.get(f"{address}/v1/{index}/{path}", params=parameters).json()


def wait_for_address(page, name, values):
    """Playwright sees a changed address a moment after the page."""
    page.wait_for_url(lambda url: parse_qs(urlparse(url).query).get(name, []) == values)


def documents(page, side):
    return page.eval_on_selector_all(f"#side-{side} .hits > li", "rows => rows.map(row => row.dataset.docid)")


def violations(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    return [
        (violation["id"], violation["nodes"][0]["html"]) for violation in axe.Axe().run(page).response["violations"]
    ]


def test_both_sides_show_the_service_s_rankings_joined_by_lines(page, address):
    search(page, address)
    for side, reranker in (("left", "none"), ("right", "delta")):
        answer = answer_of(address, "search", query="statins", reranker=reranker)
        assert documents(page, side) == [hit["docid"] for hit in answer["candidates"]]
    joined = page.eval_on_selector_all("#lines path:not(.beyond)", "paths => paths.map(path => path.dataset.line)")
    assert set(joined) == set(documents(page, "left")) & set(documents(page, "right"))
    page.select_option("#left", "titles")
    page.wait_for_selector("#side-left h2:has-text('titles')")


def test_the_address_keeps_an_open_explanation(page, address):
    search(page, address)
    docid = documents(page, "right")[0]
    open_document(page)
    wait_for_address(page, "doc", [docid])
    answer = answer_of(address, "explain", query="statins", docid=docid, reranker="delta")
    assert page.text_content(".sentence") == answer["sentence"]
    assert page.text_content(".abstract") == answer["abstract"]
    page.locator(".matrix td[tabindex='0']").focus()
    assert "statins × " in page.text_content(".reading")
    page.reload()
    page.wait_for_selector(".sentence")
    assert page.text_content(".sentence") == answer["sentence"]
    page.keyboard.press("Escape")
    wait_for_address(page, "doc", [])


def test_documents_that_are_read_leave_no_entries_in_the_history(page, address):
    search(page, address)
    before = page.evaluate("history.length")
    asked = []
    page.on("request", lambda request: "/search?" in request.url and asked.append(request.url))
    for nth in (0, 1, 2):
        open_document(page, nth=nth)
        assert page.evaluate("document.activeElement.matches('dialog .close')")  # after the explanation arrived, too
        page.keyboard.press("Escape")
        wait_for_address(page, "doc", [])
        page.wait_for_function("document.activeElement.matches('.open')")
    open_document(page)
    page.go_back()
    page.wait_for_function("!document.querySelector('dialog').open")
    page.go_forward()
    page.wait_for_selector(".sentence")
    assert page.evaluate("history.length") == before + 1 and not asked


def test_an_unknown_index_is_named_and_no_other_is_searched(page, address):
    page.goto(f"{address}/?index=gone&query=statins")
    page.wait_for_selector("#status .error")
    assert "There is no index “gone” here" in page.text_content("#status") and page.locator(".hits").count() == 0


def test_a_click_is_logged_with_the_shown_documents(page, address, click_log):
    search(page, address, "?query=lower cholesterol")
    ids = documents(page, "right")
    open_document(page, nth=1)
    with page.expect_response("**/click") as click:
        page.keyboard.press("Escape")
    assert click.value.status == 204
    header, *lines = (line.split("\t") for line in click_log.read_text().splitlines())
    logged = [dict(zip(header, line)) for line in lines if line[0] == "lower cholesterol"]
    assert [line["document"] for line in logged] == ids
    assert [line["document"] for line in logged if line["summary_clicks"] == "1"] == [ids[1]]


def test_document_texts_are_not_markup(page, address):
    search(page, address, "?query=statins&hits=20")
    titles = page.eval_on_selector_all("#side-right h3", "titles => titles.map(title => title.textContent)")
    assert {f"Retracted {HOSTILE[0].title}", HOSTILE[1].title, "No title", HOSTILE[3].title} <= set(titles)
    for docid in ("script", "rtl", "untitled", "long"):
        open_document(page, f"#side-right [data-docid={docid}]")
        assert page.text_content(".abstract") == next(document.abstract for document in HOSTILE if document.id == docid)
        page.keyboard.press("Escape")
    assert page.evaluate("window.bad") is None


def test_stored_metadata_is_shown(page, address):
    search(page, address, "?query=statins&hits=20")
    row, metadata = page.locator("#side-right [data-docid=script]"), METADATA["script"]
    line = "<b>One</b> A, Two B, Three C, et al. · <i>J</i> Statins · 2000 · script at PubMed, in a new tab ↗"
    assert row.locator(".details").text_content() == f"Meta-analysis · German · {line}"
    assert page.locator("#side-right .retracted").all_text_contents() == ["Retracted"]
    open_document(page, "#side-right [data-docid=script]")
    page.click(".authors summary")
    for text in (
        ", ".join(metadata["authors"]),
        f"Meta-analysis · German · {metadata['journal']} · 2000-03 · script · PubMed",
        "Retracted",
    ):
        assert page.locator("dialog").get_by_text(text).is_visible()
    assert page.locator(".headings li").all_text_contents() == [*metadata["types"], *metadata["mesh"]]


def test_only_addresses_at_pubmed_and_of_dois_are_links(page, address):
    bad = ("javascript:alert(1)//pubmed.ncbi.nlm.nih.gov/1/", "https://doi.org@example.org/1", "//doi.org/10.1/x", 7)

    def answer(route):
        response = route.fetch()
        body = response.json()
        hits = (hit for hit in body["candidates"] if hit["docid"] not in METADATA)
        for hit, url in zip(hits, bad):
            hit["doc"]["url"] = url
        route.fulfill(response=response, json=body)

    page.route("**/v1/statins/search*", answer)
    search(page, address, "?query=statins&hits=20")
    links = "links => links.map(link => [link.href, link.target, link.rel])"
    expected = [[METADATA[id]["url"], "_blank", "noopener noreferrer"] for id in ("rtl", "script")]
    assert sorted(page.eval_on_selector_all("#side-right .details a", links)) == expected


def test_notes_are_shown_once_above_the_results(page, address):
    def answer(route):
        response, notes = route.fetch(), ["<b>AND</b> is read as a word"]
        if "reranker=delta" in route.request.url:
            notes.append("of a reranker")
        route.fulfill(response=response, json=response.json() | {"notes": notes})

    small(page)
    page.route("**/v1/statins/search*", answer)
    search(page, address)
    notes = page.get_by_role("status").locator("p.notice").all_text_contents()
    assert notes == ["<b>AND</b> is read as a word", "of a reranker"] and accessible(page)


def test_the_api_documentation_opens(page, address):
    page.goto(address)
    page.click("text=API documentation")
    page.wait_for_selector("[id^=operations-search-search_index]")
    page.click("text=Search and compare")
    page.wait_for_selector("#examples button")


def test_judgments_are_kept_and_exported(page, address):
    search(page, address, "?query=lower statins")
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
    page.select_option("#format", "nbib")
    assert [line[6:] for line in saved("#export") if line[:4] == "PMID"] == documents(page, "right")
    run = [line.split() for line in saved("#run-right")]
    assert [docid for _, _, docid, *_ in run] == documents(page, "right")
    assert {query for query, *_ in run} == {"lower_statins"}
    assert [int(rank) for _, _, _, rank, *_ in run] == list(range(1, 11))


def test_filters_and_the_order_by_date_are_sent_and_kept_in_the_address(page, address):
    search(page, address)
    page.click("#filters summary")
    page.fill("[data-filter=year]", "2000-2004")
    page.fill("[data-filter=journal]", "NOT J Tests")
    page.select_option("#sort", "date")
    page.click("button.main")
    page.wait_for_selector("#side-right .hits:not(:has(> :nth-child(5)))")
    wait_for_address(page, "filter", ["year:2000-2004", "NOT journal:J Tests"])
    page.reload()
    page.wait_for_selector("#side-right .hits > li")
    assert page.input_value("[data-filter=journal]") == "NOT J Tests"
    wait_for_address(page, "sort", ["date"])
    assert documents(page, "right") == ["long", "untitled", "rtl", "script"]  # the newest first
    dates = page.locator("#side-right .details").all_text_contents()
    assert [line.split(" · ")[-2] for line in dates] == ["2003", "2002", "2001", "2000"]
    open_document(page)
    page.go_back()
    page.go_back()
    page.wait_for_selector("#side-right .hits > :nth-child(10)")


def test_the_keyboard_suffices(page, address):
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


def test_overload_is_shown_and_retried(page, address):
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
    assert accessible(page)
    page.wait_for_selector("#side-right .hits > li")
    assert not refusals and page.locator(".overload").count() == 0


def test_errors_and_empty_rankings_are_shown(page, address):
    small(page)
    page.goto(f"{address}/?query=zzzz")
    page.wait_for_selector(".notice")
    assert accessible(page)
    page.goto(f"{address}/?query=statins&filter=year:never")
    page.wait_for_selector("#status .error")
    assert "year:never" in page.text_content("#status .error") and accessible(page)


def test_the_page_asks_for_a_token_and_shows_a_passed_deadline(page, indexes):
    small(page)
    with serving(ServiceConfig(indexes, {"delta": "delta"}, token="secret", deadline=1e-6)) as client:
        page.goto(f"{client.base_url}/?query=statins")
        page.wait_for_selector("#status [type=password]")
        assert accessible(page)
        page.fill("#status [type=password]", "secret")
        page.keyboard.press("Enter")
        page.wait_for_selector("#side-right .notice")
        assert "deadline" in page.text_content("#side-right .notice") and accessible(page)
        assert documents(page, "right") == documents(page, "left") != []


@pytest.mark.real_data
def test_a_real_collection(page, real_data, tmp_path):
    """The suggested queries of NFCorpus, and the explanation of the document whose rank rose most."""
    source = f"{real_data}/nfcorpus"
    rp.build_index(source, tmp_path / "nfcorpus")
    with serving(ServiceConfig({"nfcorpus": str(tmp_path / "nfcorpus")}, {"delta": "delta"}, deadline=60)) as client:
        page.goto(str(client.base_url))
        page.wait_for_selector("#examples button")
        first = page.locator("#examples button").first
        query = first.text_content()
        assert query in {query.text for query in queries(f"{source}:test")}
        first.click()
        page.wait_for_selector("#side-right .hits > li")
        answer = answer_of(client.base_url, "search", "nfcorpus", query=query, reranker="delta")
        assert documents(page, "right") == [hit["docid"] for hit in answer["candidates"]]
        assert accessible(page)
        risen = max(answer["candidates"], key=lambda hit: hit["first_stage_rank"] - hit["rank"])
        open_document(page, f"#side-right [data-docid='{risen['docid']}']")
        assert str(risen["first_stage_rank"]) in page.text_content(".sentence") and violations(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_pages_are_accessible(page, address, scheme, width):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(address)
    page.wait_for_selector("#examples button")
    assert violations(page) == []
    search(page, address, "?query=statins&hits=20")
    assert accessible(page)
    open_document(page, "#side-right [data-docid=script]")
    assert violations(page) == []
    assert page.evaluate("(dialog => dialog.scrollWidth <= dialog.clientWidth)(document.querySelector('dialog'))")


def test_a_document_has_an_address_without_a_query(page, address):
    page.goto(f"{address}/?doc=noticed")
    page.wait_for_selector(".abstract")
    assert page.locator("dialog h2").inner_text() == "ERRATUM A structured trial"
    assert page.locator(".abstract p").all_inner_texts() == ["BACKGROUND: 🙂 Why.", "METHODS (A): We looked."]
    assert "Systematic review · Spanish · J Tests · " in page.locator("dialog .details").nth(0).inner_text()
    links = page.eval_on_selector_all(
        "dialog a[href^='?']", "links => links.map(link => [link.textContent, link.search])"
    )
    queries_of = {text: parse_qs(search[1:])["query"] for text, search in links}
    assert queries_of == {
        "Müller K": ["Müller K[au]"], "J Tests": ['"J Tests"[ta]'], "PMID: 12": ["12"], "Humans": ['"Humans"[mh]'],
        "Systematic Review": ['"Systematic Review"[pt]'],
    }  # fmt: skip
    assert accessible(page)
    page.keyboard.press("Escape")
    wait_for_address(page, "doc", [])
