"""The page in a real browser, over a live service: search, filters, the open document, comparison, errors."""

from urllib.parse import parse_qs

import httpx
import pytest

from rerank_plugin.service.config import ServiceConfig
from tests.service.browser import (
    HOSTILE,
    METADATA,
    accessible,
    documents,
    needs_chromium,
    open_document,
    search,
    small,
    violations,
    wait_for_address,
)
from tests.service.live import serving

pytestmark = needs_chromium


def answer_of(address, path, index="statins", **parameters):
    """The service's own answer."""
    return httpx.get(f"{address}/v1/{index}/{path}", params=parameters).json()


def texts(page, selector):
    return [" ".join(text.split()) for text in page.locator(selector).all_text_contents()]


def test_the_list_is_the_recommended_ranking_in_pages(page, address):
    search(page, address, "?query=lower+cholesterol&hits=10")
    answer = answer_of(address, "search", query="lower cholesterol", hits=100)
    assert (answer["first_stage"], answer["reranker"], answer["reranked"]) == ("hybrid", "delta+0.5", True)
    ids = [hit["docid"] for hit in answer["candidates"]]
    assert documents(page) == ids[:10] and page.title() == "lower cholesterol · rerank_plugin"
    page.wait_for_selector("#any-word:not(:empty)")
    assert texts(page, ".found > :not(.tools)") == [f"Best {len(ids)}", "17 documents have any of the words"]
    page.click("text=Next")
    wait_for_address(page, "page", ["2"])
    page.wait_for_selector(f"#hit-list [data-docid='{ids[10]}']")
    assert documents(page) == ids[10:] and texts(page, ".pager span") == ["Page 2 of 2"]
    assert page.evaluate("document.activeElement.id") == "found"
    page.go_back()
    page.wait_for_selector(f"#hit-list [data-docid='{ids[0]}']")
    assert documents(page) == ids[:10]


def test_filters_are_chips_and_values_with_counts(page, address):
    search(page, address)
    page.wait_for_selector("[data-field=type] li")
    assert texts(page, "[data-field=type] label") == ["Meta-Analysis1"]
    page.check("[data-value='type:Meta-Analysis']")
    page.wait_for_selector("#hit-list .hits:not(:has(> :nth-child(2)))")
    assert documents(page) == ["script"]
    page.click(".flip")
    wait_for_address(page, "filter", ["NOT type:Meta-Analysis"])
    page.fill("[aria-label=From]", "2000")
    page.fill("[aria-label=To]", "2004")
    page.keyboard.press("Tab")
    page.wait_for_selector("#hit-list .hits:not(:has(> :nth-child(5)))")
    wait_for_address(page, "filter", ["NOT type:Meta-Analysis", "year:2000-2004"])
    page.fill("[data-filter=journal]", "NOT J Tests")
    page.keyboard.press("Enter")
    page.wait_for_selector("#hit-list .hits:not(:has(> :nth-child(4)))")
    page.select_option("#sort", "date")
    wait_for_address(page, "sort", ["date"])
    page.wait_for_selector("#hit-list li:nth-child(2)[data-docid=untitled]")
    assert documents(page) == ["long", "untitled", "rtl"]  # the newest first
    page.reload()
    page.wait_for_selector("#hit-list .hits > li")
    assert texts(page, "#chips .flip") == ["not Article type: Meta-Analysis", "Year: 2000-2004", "not Journal: J Tests"]
    for _ in range(3):
        page.locator(".remove").first.click()
    page.wait_for_selector("#hit-list .hits > :nth-child(10)")


@pytest.mark.parametrize(
    ("years", "shown"), [("2000-", ["2000", ""]), ("-2004", ["", "2004"]), ("2000", ["2000", "2000"])]
)
def test_years_are_shown_as_they_are_set(page, address, years, shown):
    search(page, address, f"?query=the+statins&filter=year%3A{years}")
    page.wait_for_selector("[data-field=year]")
    assert [page.input_value(f"[aria-label={name}]") for name in ("From", "To")] == shown


def test_a_document_is_read_with_its_words_marked_and_leaves_no_entry_in_the_history(page, address):
    search(page, address, "?query=the+statins")
    before, ids = page.evaluate("history.length"), documents(page)
    asked = []
    page.on("request", lambda request: "/search?" in request.url and asked.append(request.url))
    for nth in (0, 1, 2):
        open_document(page, nth=nth)
        assert page.evaluate("document.activeElement.matches('dialog .close')")  # after the document arrived, too
        page.keyboard.press("Escape")
        wait_for_address(page, "doc", [])
        page.wait_for_function("document.activeElement.matches('.open')")
    open_document(page)
    page.keyboard.press("j")
    wait_for_address(page, "doc", [ids[1]])
    page.wait_for_selector(".abstract")
    assert {text.lower() for text in texts(page, ".abstract mark")} == {"statins"}  # and no stop word
    page.go_back()
    page.wait_for_function("!document.querySelector('dialog').open")
    page.go_forward()
    page.wait_for_selector(".why")
    assert page.evaluate("history.length") == before + 1 and not asked
    page.click(".why > summary")
    page.wait_for_selector(".sentence")
    assert page.text_content(".sentence") in ("The title has “statins”.", "The abstract has “statins”.")
    page.wait_for_selector("[data-similar]")
    similar = page.locator("[data-similar]").first
    opened = similar.get_attribute("data-similar")
    similar.click()
    wait_for_address(page, "doc", [opened])
    page.go_back()
    wait_for_address(page, "doc", [ids[1]])


def test_a_document_has_an_address_without_a_query(page, address):
    page.goto(f"{address}/?doc=noticed")
    page.wait_for_selector(".abstract")
    assert page.title() == "A structured trial · rerank_plugin"
    assert page.locator("dialog h2").inner_text() == "ERRATUM A structured trial"
    page.get_by_text("Abstract in other words or languages").click()
    abstracts = page.locator(".abstract p").all_inner_texts()
    assert abstracts == [
        "BACKGROUND: 🙂 Why.",
        "METHODS (A): We looked.",
        "ANTECEDENTES: Por qué.",
        "MÉTODOS: Miramos.",
    ]
    details = page.locator("dialog .details").all_inner_texts()
    assert details[0] == "Un ensayo" and "Systematic review · Spanish · J Tests · " in details[1]
    links = page.eval_on_selector_all(
        "dialog a[href^='?']:not([data-similar])", "links => links.map(link => [link.textContent, link.search])"
    )
    queries_of = {text: parse_qs(search[1:])["query"] for text, search in links}
    assert queries_of == {
        "Müller K": ["Müller K[au]"], "J Tests": ['"J Tests"[ta]'], "PMID: 12": ["12"], "Humans": ['"Humans"[mh]'],
        "Systematic Review": ['"Systematic Review"[pt]'],
    }  # fmt: skip
    assert accessible(page)
    page.click("dialog a:has-text('Humans')")
    page.wait_for_selector("#hit-list .hits > li")
    assert sorted(documents(page)) == ["noticed", "script"] and page.text_content("#found") == "2 found"


def test_filters_stay_open_on_a_phone_until_the_list_is_asked_for(page, address):
    small(page)
    search(page, address)
    page.click("#panel > summary")
    for number, chosen in enumerate(("type:Meta-Analysis", "language:ger"), 1):
        page.check(f"[data-value='{chosen}']")
        page.wait_for_selector(f"#panel > summary:text('({number})')")
    wait_for_address(page, "filter", ["type:Meta-Analysis", "language:ger"])
    assert accessible(page)
    page.click(".done")
    assert documents(page) == ["script"] and page.get_attribute("#panel", "open") is None


def test_a_click_is_logged_with_the_shown_documents(page, address, click_log):
    search(page, address, "?query=lower+statins")
    ids = documents(page)
    open_document(page, nth=1)
    with page.expect_response("**/click") as click:
        page.keyboard.press("Escape")
    assert click.value.status == 204
    header, *lines = (line.split("\t") for line in click_log.read_text().splitlines())
    logged = [dict(zip(header, line)) for line in lines if line[0] == "lower statins"]
    assert [line["document"] for line in logged] == ids
    assert [line["document"] for line in logged if line["summary_clicks"] == "1"] == [ids[1]]


def test_document_texts_are_not_markup_and_metadata_are_shown(page, address):
    search(page, address)
    titles = page.eval_on_selector_all("#hit-list h3", "titles => titles.map(title => title.textContent)")
    assert {f"Retracted {HOSTILE[0].title}", HOSTILE[1].title, "No title", HOSTILE[3].title} <= set(titles)
    row, metadata = page.locator("#hit-list [data-docid=script]"), METADATA["script"]
    line = "<b>One</b> A, Two B, Three C, et al. · <i>J</i> Statins · 2000 · script at PubMed, in a new tab ↗"
    assert row.locator(".details").text_content() == f"Meta-analysis · German · {line}"
    assert page.locator("#hit-list .retracted").all_text_contents() == ["Retracted", "Erratum"]
    for docid in ("rtl", "untitled", "long", "script"):
        open_document(page, f"#hit-list [data-docid={docid}]")
        assert page.text_content(".abstract") == next(document.abstract for document in HOSTILE if document.id == docid)
        if docid != "script":
            page.keyboard.press("Escape")
    page.click(".authors summary")
    for text in (
        ", ".join(metadata["authors"]),
        f"Meta-analysis · German · {metadata['journal']} · 2000-03 · script · PubMed",
    ):
        assert page.locator("dialog").get_by_text(text).is_visible()
    assert page.get_by_text("doi:10.1000/x#1").get_attribute("href") == "https://doi.org/10.1000/x%231"
    assert texts(page, ".headings li") == [*metadata["types"], *metadata["mesh"]]
    assert page.evaluate("window.bad") is None


def test_only_addresses_at_pubmed_and_of_dois_are_links_and_notes_are_shown(page, address):
    bad = ("javascript:alert(1)//pubmed.ncbi.nlm.nih.gov/1/", "https://doi.org@example.org/1", "//doi.org/10.1/x", 7)

    def answer(route):
        response = route.fetch()
        body = response.json()
        hits = (hit for hit in body["candidates"] if hit["docid"] not in METADATA)
        for hit, url in zip(hits, bad):
            hit["doc"]["url"] = url
        route.fulfill(response=response, json=body | {"notes": ["<b>AND</b> is read as a word"]})

    small(page)
    page.route("**/v1/statins/search*", answer)
    search(page, address)
    links = "links => links.map(link => [link.href, link.target, link.rel])"
    expected = [[METADATA[id]["url"], "_blank", "noopener noreferrer"] for id in ("rtl", "script")]
    assert sorted(page.eval_on_selector_all("#hit-list .details a", links)) == expected
    assert texts(page, "#status p.notice") == ["<b>AND</b> is read as a word"] and accessible(page)


def test_documents_are_screened_by_keys_ranked_by_the_included_and_exported(page, address):
    def saved(button):
        with page.expect_download() as download:
            page.click(button)
        return download.value.path()

    search(page, address, "?query=lower+AND+statins&hits=10")
    ids = [hit["docid"] for hit in httpx.post(
        f"{address}/v1/statins/screening",
        json={"search": {"query": ["lower AND statins"], "query_syntax": "pubmed", "first_stage": "hybrid",
                         "reranker": "none", "hits": 20}},
    ).json()["candidates"]]  # fmt: skip
    page.click("text=Export")
    exported = saved("[data-format=nbib]").read_text("utf-8")
    assert [line[6:] for line in exported.splitlines() if line[:4] == "PMID"] == ids  # of all pages
    page.click("#screen")
    page.wait_for_selector(".deciding")
    for key in "ieumeeeeeee":
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog .abstract")
    page.keyboard.press("i")
    page.keyboard.press("Escape")
    assert texts(page, ".counts") == [f"{len(ids) - 10} left · 2 included · 1 maybe · 7 excluded"]
    page.select_option("#sort", "like")
    page.wait_for_selector(f"#hit-list .hits:not(:has(> :nth-child({len(ids) - 9})))")
    body = {"search": {"query": ["lower AND statins"], "query_syntax": "pubmed", "first_stage": "hybrid"},
            "included": [ids[0], ids[9]], "decided": ids[:10]}  # fmt: skip
    ranked = httpx.post(f"{address}/v1/statins/screening", json=body).json()["candidates"]
    assert documents(page) == [hit["docid"] for hit in ranked]
    decisions = saved("#save-decisions")
    page.on("dialog", lambda dialog: dialog.accept())
    page.click("#clear-decisions")
    page.wait_for_selector(f".counts:has-text('{len(ids)} left')")
    with page.expect_file_chooser() as chooser:
        page.click("#load-decisions")
    chooser.value.set_files(decisions)
    page.wait_for_selector(f".counts:has-text('{len(ids) - 10} left')")
    page.click("text=Included as")
    assert saved("#screening [data-format=ris]").read_text("utf-8").count("TY  - ") == 2


def test_two_rankings_are_compared_judged_and_saved(page, address):
    search(page, address, "?query=lower+statins")
    page.click("#switch")
    page.wait_for_selector("#side-right .hits > li")
    page.select_option("#right-reranker", "delta")
    wait_for_address(page, "right", ["hybrid,delta"])
    page.wait_for_selector("#side-right .move")
    for side, stage, reranker in (("left", "bm25", "none"), ("right", "hybrid", "delta")):
        parameters = {"query": "lower statins", "first_stage": stage, "reranker": reranker, "hits": 20}
        answer = answer_of(address, "search", **parameters)
        assert documents(page, f"#side-{side}") == [hit["docid"] for hit in answer["candidates"]]
    joined = page.eval_on_selector_all("#lines path:not(.beyond)", "paths => paths.map(path => path.dataset.line)")
    assert set(joined) == {*documents(page, "#side-left")} & {*documents(page, "#side-right")} != set()
    docid = documents(page, "#side-right")[1]
    page.locator(f"#side-right [data-docid='{docid}'] .judge").first.click()
    page.reload()
    page.wait_for_selector(f"#side-right [data-docid='{docid}'] [aria-pressed=true]")

    def saved(button):
        with page.expect_download() as download:
            page.click(button)
        return download.value.path().read_text("utf-8").splitlines()

    assert saved("#qrels") == [f"lower_statins 0 {docid} 1"]
    run = [line.split() for line in saved("#run-right")]
    assert [docid for _, _, docid, *_ in run] == documents(page, "#side-right")
    assert {(query, tag) for query, *_, tag in run} == {("lower_statins", "hybrid+delta")}
    open_document(page, f"#side-right [data-docid='{docid}']")
    page.wait_for_selector(".sentence")  # the explanation is open here
    page.click(".numbers > summary")
    answer = answer_of(address, "explain", query="lower statins", docid=docid, reranker="delta", first_stage="hybrid")
    assert answer["sentence"] in page.text_content(".ranks")
    page.locator(".matrix td[tabindex='0']").focus()
    assert "lower × " in page.text_content(".reading") and violations(page) == []
    page.reload()
    page.wait_for_selector(".sentence")


def test_the_keyboard_suffices(page, address):
    page.goto(address)
    page.wait_for_selector("#examples a")
    page.keyboard.press("/")
    page.keyboard.type("statins")
    page.keyboard.press("Enter")
    page.wait_for_selector("#hit-list .hits > li")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.open')"):
            break
    page.keyboard.press("Enter")
    page.wait_for_selector(".abstract")
    page.keyboard.press("Escape")
    page.wait_for_function("document.activeElement.matches('.open')")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.closest('li').dataset.docid") == documents(page)[1]
    page.click("text=API documentation")
    page.wait_for_selector("[id^=operations-search-search_index]")
    page.click("text=Search and compare")
    page.wait_for_selector("#examples a")


def test_overload_is_shown_and_retried(page, address):
    refusals = [429]

    def answer(route):
        if refusals:
            refusals.pop()
            route.fulfill(status=429, headers={"Retry-After": "1"}, json={"error": "busy"})
        else:
            route.continue_()

    small(page)
    page.route("**/v1/statins/search*", answer)
    page.goto(f"{address}/?query=statins")
    page.wait_for_selector("#status .overload")
    assert accessible(page)
    page.wait_for_selector("#hit-list .hits > li")
    assert not refusals and page.locator(".overload").count() == 0
    page.click("text=Export")
    assert page.eval_on_selector(".menu .items", "menu => menu.scrollWidth <= menu.clientWidth")


def test_errors_and_empty_rankings_are_shown(page, address):
    small(page)
    page.goto(f"{address}/?query=cholestrol AND zzzz")
    page.wait_for_selector("#hit-list .notice")
    assert accessible(page)
    page.goto(f"{address}/?query=lower cholestrol?")
    page.click(".meant a:text('lower cholesterol?')")
    wait_for_address(page, "query", ["lower cholesterol?"])
    page.goto(f"{address}/?query=statins&filter=year:never")
    page.wait_for_selector("#status .error")
    assert "year:never" in page.text_content("#status .error") and accessible(page)
    page.click("#status .remove")
    page.wait_for_selector("#hit-list .hits > li")
    page.goto(f"{address}/?index=gone&query=statins")
    page.wait_for_selector("#status .error")
    assert "There is no index “gone” here" in page.text_content("#status") and page.locator(".hits").count() == 0


def test_the_page_asks_for_a_token_and_shows_a_passed_deadline(page, indexes):
    small(page)
    with serving(ServiceConfig(indexes, {"delta": "delta"}, token="secret", deadline=1e-6)) as client:
        page.goto(f"{client.base_url}/?query=statins+cholesterol&reranker=delta")
        page.wait_for_selector("#status [type=password]")
        assert accessible(page)
        page.fill("#status [type=password]", "secret")
        page.keyboard.press("Enter")
        page.wait_for_selector("#hit-list .notice")
        assert "deadline" in page.text_content("#hit-list .notice") and accessible(page)
        assert len(documents(page)) > 10


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_pages_are_accessible(page, address, scheme, width):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(address)
    page.wait_for_selector("#examples a")
    assert violations(page) == []
    search(page, address, "?query=(statins+OR+structured)+NOT+zzzz&screen=undecided&filter=NOT+type:Letter")
    page.wait_for_selector("[data-field=type] li", state="attached")
    page.keyboard.press("i")
    page.wait_for_selector("[data-decision=include]")
    assert accessible(page)
    if width == 360:
        search(page, address, "?query=(statins+OR+cholesterol)+NOT+zzzz")
        assert page.locator("#hit-list li").first.bounding_box()["y"] < 400  # in the upper half of a phone's screen
        page.evaluate("document.documentElement.style.fontSize = '200%'")  # the size of texts that a phone is set to
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    open_document(page, "#hit-list [data-docid=script]")
    page.click(".why > summary")
    page.wait_for_selector(".sentence")
    assert violations(page) == []
    assert page.evaluate("(dialog => dialog.scrollWidth <= dialog.clientWidth)(document.querySelector('dialog'))")
    search(page, address, "?query=statins&view=compare", "#side-right .hits > li")
    assert accessible(page)
