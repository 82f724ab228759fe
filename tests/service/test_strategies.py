"""A librarian's queries through the API, the command, MCP and the page: what is found, and what ranks it."""

import csv
import re
from urllib.parse import urlencode

import pytest

import rerank_plugin as rp
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import Filter
from rerank_plugin.base.records import Document
from rerank_plugin.search import main as search
from rerank_plugin.service.config import ServiceConfig
from tests.conftest import REAL_DATA
from tests.service.browser import documents, needs_chromium, wait_for_address
from tests.service.live import serving

CASES = REAL_DATA.parent / "cases" / "reader"
ROWS = (
    list(csv.DictReader((CASES / "queries.tsv").open(), delimiter="\t", quoting=csv.QUOTE_NONE))
    if CASES.is_dir()
    else []
)
ON_THE_PAGE = ("(aspirin OR", "Smith JA[au]", "Meniere", "10.9999", "metformin AND")
case = pytest.mark.parametrize("row", ROWS, ids=[row["query"][:30] for row in ROWS])


@pytest.fixture(scope="module")
def citations(tmp_path_factory):
    folder = tmp_path_factory.mktemp("citations") / "index"
    rp.build_index(CASES / "citations.xml", folder)
    return folder


@pytest.fixture(scope="module")
def librarian(citations):
    with (
        serving(ServiceConfig({"citations": str(citations)}, {"delta": "delta"}, deadline=60)) as client,
        rp.Searcher(citations) as searcher,
    ):
        client.folder, client.searcher = citations, searcher
        yield client


def filters(row):
    return [part.partition("=")[2] for part in row["parameters"].split(";") if part]


def check(row, ids):
    expected = (row["pmids"] or "").split()
    if row["kind"] == "top":
        assert ids[:1] == expected
    else:
        assert sorted(ids) == expected


def through_the_api(librarian, row, reranker="none"):
    parameters = {"query": row["query"], "filter": filters(row), "hits": 100, "query_syntax": "pubmed"}
    answer = librarian.get("/v1/citations/search", params={**parameters, "reranker": reranker}).json()
    assert answer["matches"] == (None if row["kind"] == "top" else len((row["pmids"] or "").split()))
    return [hit["docid"] for hit in answer["candidates"]], answer["read_as"]


def through_the_command(librarian, row, capsys):
    arguments = [argument for filter in filters(row) for argument in ("--filter", filter)]
    search(["--index", str(librarian.folder), "--query", row["query"], "--show", "100", *arguments])
    printed = capsys.readouterr()
    return re.findall(r"(?m)^ *\d+ .*? (9\d{7}) ", printed.out), "read as " in printed.err


def through_python(librarian, row):
    filter = Filter.parse(filters(row)) if row["parameters"] else None
    hits = librarian.searcher.search(row["query"], k=100, filter=filter, query_syntax="pubmed")
    return [hit.docid for hit in hits], librarian.searcher.read(row["query"], filter=filter).read_as


@pytest.mark.real_data
@case
@pytest.mark.parametrize("way", ["api", "api with delta", "command", "python"])
def test_a_query_of_a_librarian(librarian, row, way, capsys):
    if way == "api with delta":
        if row["kind"] == "top":
            return  # of BM25
        found = through_the_api(librarian, row, "delta")
    elif way == "api":
        found = through_the_api(librarian, row)
    else:
        found = through_the_command(librarian, row, capsys) if way == "command" else through_python(librarian, row)
    ids, read_as = found
    check(row, ids)
    assert bool(read_as) == (row["kind"] != "top")


@pytest.mark.real_data
@pytest.mark.parametrize(
    "query, numbers",
    [
        ("metformin AND (90000001 OR 90000013)", "1"),  # is what is known among what the strategy finds?
        ("90000001,90000013[pmid]", "1 13"),
        ("10.9999/bmj.inv.2021\n10.9999/bmj.inv.2020", "2 13"),
        ("10.9999/bmj.inv.2021 OR 10.9999/bmj.inv.2020", "2 13"),
        ("Smith JA metformin", "1"),
        ("Smith JA 2019", "1"),
        ("smith ja AND metformin", "1"),
        ("smith ja metformin", "1"),
        ("Nakamura R JAMA", "8 34"),
        ("Inventive R. A trial. N Engl J Med. 2019;380:1011", "1"),
        ("N Engl J Med 2019 380 1011", "1"),
        ("N Engl J Med 380:1011", "1"),
        ("(Smith JA OR Muller K) NOT metformin", "6 9 16 35"),
        ("Smith JA et al. N Engl J Med", "1 16"),
        ("N Engl J Med 2019", "1"),
        ("Lancet 2014", "5"),
        ("Müller, Katrin", "2 9"),
        ("Inventive Liver Study Group", "12"),
        ("Inventive Liver Study Group[cn] recommendations", "12"),
        ("My strategy\n1. metformin[tiab] OR\naspirin[tiab]\n2. asthma[tiab]\n3. 1 OR 2", "1 2 3 4 7 14 21 22"),
    ],
)
def test_known_documents_and_wrapped_lines(librarian, query, numbers):
    ids = [hit.docid for hit in librarian.searcher.search(query, k=100, query_syntax="pubmed")]
    assert sorted(int(id) - 90_000_000 for id in ids) == [int(number) for number in numbers.split()]


@pytest.mark.real_data
def test_names_are_taken_only_where_some_document_has_them(librarian):
    for words in ("Vitamin D in Care Homes", "Smith XY metformin", "Take A metformin 2019"):
        assert librarian.searcher.read(words).read_as is None
    reading = librarian.searcher.read("Smith JA unicorn")
    assert reading.read_as is None and "Smith JA[au] has all other words, too" in reading.notes[0]
    assert librarian.searcher.read("Vitamin D AND falls").read_as == "Vitamin AND D AND falls"
    with_tags = librarian.searcher.read("Smith JA metformin", term_mapping=False)
    assert with_tags.read_as is None


@needs_chromium
@pytest.mark.real_data
@pytest.mark.parametrize(
    "row", [row for row in ROWS if row["query"].startswith(ON_THE_PAGE)], ids=lambda row: row["query"]
)
def test_through_the_page(page, librarian, row):
    page.goto(f"{librarian.base_url}/?{urlencode({'query': row['query'], 'reranker': 'none', 'hits': 50})}")
    page.wait_for_selector("#hit-list .hits > li, #hit-list .notice")
    check(row, documents(page))


TOPICS = ("statin", "aspirin", "statin aspirin")


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """700 documents, more than a search ranks of plain words: 525 of them have "trial", with dates of 1990 to 2019."""
    folder = tmp_path_factory.mktemp("many") / "index"
    documents = [
        Document(
            str(number), f"{'Trial' if number % 4 else 'Case'} of {TOPICS[number % 3]} {number}",
            "pain " * (number % 5), {"date": f"{1990 + number % 30}", "types": ["Review" if number % 2 else "Letter"]},
        )
        for number in range(700)
    ]  # fmt: skip
    rp.build_index(documents, folder)
    with serving(ServiceConfig({"many": str(folder)}, {"delta": "delta"}, deadline=60)) as client:
        client.folder = folder
        yield client


def answer(client, **parameters):
    return client.get("/v1/many/search", params={"query_syntax": "pubmed", **parameters}).json()


TRIALS = {str(number) for number in range(700) if number % 4}


@pytest.mark.parametrize("reranker", ["none", "delta"])
def test_a_whole_set_is_ranked_and_paged(many, reranker):
    pages = [
        answer(many, query="trial[ti] NOT xyz", reranker=reranker, hits=200, offset=offset) for offset in (0, 200, 400)
    ]
    ids = [hit["docid"] for page in pages for hit in page["candidates"]]
    assert len(ids) == 525 and set(ids) == TRIALS
    assert all(page["matches"] == page["total"] == page["depth"] == 525 for page in pages)
    assert answer(many, query="trial[ti] NOT xyz", depth=7, reranker=reranker)["total"] == 7


def test_a_text_ranks_the_set_that_a_strategy_decides(many):
    found = answer(many, query="trial[ti] AND review[pt]", rank_by="statin", reranker="none", hits=500)
    topics = ["statin" in hit["title"] for hit in found["candidates"]]
    assert found["matches"] == len(topics) == 350 and topics == sorted(topics, reverse=True) and True in topics
    assert set(topics) == {True, False}  # those without the word are in the set, too


def test_truncated_words_rank_in_their_commonest_form(many):
    with rp.Searcher(many.folder) as searcher:
        reading = searcher.read('tria*[ti] AND stati* AND "trial o*"[ti] NOT zzz*')
        assert reading.query.text == "trial statin of" and reading.matches == 350
        assert searcher.read("tria* OR zzz*").query.text == "trial zzz"


def test_without_words_the_newest_are_first(many):
    years = [hit["doc"]["date"] for hit in answer(many, query="2001:2019[dp]", reranker="none", hits=500)["candidates"]]
    assert len(years) > 400 and years == sorted(years, reverse=True)


def test_a_filter_alone_lists_the_newest_first(many, capsys):
    found = answer(many, filter="type:Letter", hits=5)
    assert found["read_as"] == "all[sb]" and found["matches"] == 350 and len(found["candidates"]) == 5
    search(["--index", str(many.folder), "--filter", "type:Letter", "--show", "5", "--format", "csv"])
    listed = [row["id"] for row in csv.DictReader(capsys.readouterr().out.splitlines())]
    assert listed == [hit["docid"] for hit in found["candidates"]]
    assert many.get("/v1/many/search").json()["field"] == "query"


@pytest.mark.parametrize("syntax", ["plain", "pubmed"])
def test_dates_sort_all_that_has_the_words(many, syntax):
    found = answer(many, query="Trial of statin aspirin", sort="date", hits=500, query_syntax=syntax, reranker="delta")
    years = [hit["doc"]["date"] for hit in found["candidates"]]
    assert found["matches"] == len(years) == 175 and years == sorted(years, reverse=True)
    assert found["reranker"] == "none" and found["candidates"][0]["highlights"]
    none = answer(many, query="trial of nothing known", sort="date", hits=100, query_syntax=syntax)
    assert none["matches"] is None and "no document has all words" in none["notes"][0] and len(none["candidates"]) > 9


def test_plain_words_stay_plain(many):
    plain = answer(many, query="trial NOT aspirin", query_syntax="plain")
    assert plain["read_as"] is plain["matches"] is None and any(
        "aspirin" in hit["title"] for hit in plain["candidates"]
    )
    assert any("are read as words" in note for note in plain["notes"])
    sentence = "what about warfarin and trial of aspirin"
    meant = answer(many, query=sentence)
    assert meant["candidates"] == answer(many, query=sentence, query_syntax="plain")["candidates"]


@pytest.mark.parametrize("query", ["trial AND", "(a OR b", "x[tiba] AND y", "#3 AND x"])
def test_a_malformed_strategy_is_refused_with_its_field(many, query):
    response = many.get("/v1/many/search", params={"query": query, "query_syntax": "pubmed"})
    assert (response.status_code, response.json()["field"]) == (400, "query")
    assert response.json()["error"].startswith("the search strategy at character ")


def test_lines_of_a_strategy(many, tmp_path, capsys):
    strategy = "1. trial[ti]\n2. review[pt]\r\n3. 1 AND 2\n"
    assert answer(many, query=strategy)["matches"] == 350
    (tmp_path / "s.txt").write_text(strategy)
    search(["--index", str(many.folder), "--strategy", str(tmp_path / "s.txt"), "--show", "1"])
    assert capsys.readouterr().err.startswith("read as trial[ti] AND review[pt]: 350 documents (plain words:")
    (tmp_path / "s.txt").write_text("\n")
    with pytest.raises(InputError, match=r"s\.txt: is empty: write a strategy"):
        search(["--index", str(many.folder), "--strategy", str(tmp_path / "s.txt")])
    (tmp_path / "s.txt").write_text("1 cats\n" * 10_001)
    with pytest.raises(InputError, match="has more than 10,000 lines"):
        search(["--index", str(many.folder), "--strategy", str(tmp_path / "s.txt")])


def test_a_run_of_strategies(many, tmp_path):
    (tmp_path / "q.tsv").write_text("1\ttrial[ti] AND review[pt]\n2\ttrial\n")
    command = ["--index", str(many.folder), "--queries", str(tmp_path / "q.tsv"), "--output", str(tmp_path / "a.run")]
    search([*command, "--query-syntax", "pubmed"])
    queries = [line.split()[0] for line in (tmp_path / "a.run").read_text().splitlines()]
    assert (queries.count("1"), queries.count("2")) == (350, 525)


def test_a_searcher_reads_strategies(many):
    with rp.Searcher(many.folder) as searcher:
        reading = searcher.read("trial[ti] AND 2019[dp]")
        assert reading.read_as == "trial[ti] AND 2019[dp]" and reading.matches == 23  # 29, 59, ..., 689
        hits = searcher.search("trial[ti] NOT aspirin", k=600, query_syntax="pubmed")
        assert len(hits) == len([id for id in TRIALS if int(id) % 3 == 0]) and not any(
            "aspirin" in hit.title for hit in hits
        )
        assert len(searcher.search("trial[ti]", k=5, offset=520, query_syntax="pubmed")) == 5
        with pytest.raises(rp.InputError, match="plain words rank by themselves"):
            searcher.search("a trial of it", rank_by="statin")


@needs_chromium
def test_the_page_shows_what_it_read(page, many):
    page.goto(f"{many.base_url}/?query=trial[ti] NOT aspirin")
    page.wait_for_selector(".understood")
    assert page.text_content(".understood").startswith("Read as trial[ti] NOT aspirin: 175 documents.")
    page.click("#plain")
    page.wait_for_selector("#status .notice")
    wait_for_address(page, "syntax", ["plain"])
    assert page.locator(".understood").count() == 0
    page.fill("#query", "trial AND (statin")
    page.click("button.main")
    page.wait_for_selector("#status .error")
    assert "character 11: '(' without its ')'" in page.text_content("#status")
    page.click("#plain")
    page.wait_for_selector("#hit-list .hits > li")
