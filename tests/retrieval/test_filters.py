"""Filters in every first stage that has them, against plain Python over the documents' metadata."""

import json
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rerank_plugin as rp
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import FILTERS, Filter, folded
from rerank_plugin.base.records import Query
from rerank_plugin.base.stopping import LateError, Stopped, stopping, within
from rerank_plugin.files.runs import read_run
from rerank_plugin.indexes import lucene_reader
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.ranking.pipeline import OpenPipeline
from rerank_plugin.ranking.searcher import Searcher
from rerank_plugin.retrieval.fusion import FusionConfig
from rerank_plugin.retrieval.lucene import NAMES, LuceneConfig
from rerank_plugin.retrieval.register import configure
from rerank_plugin.search import main as search
from rerank_plugin.strategies.syntax import Reader

VALUES = {
    "year": ("2014", "2015-2016", "2016-", "-2014"),
    "journal": ("N Engl J Med", "bmj", 'Ängström\'s  "J"'),
    "author": ("Smith J", "The Heart Group", "SMITH, J.A.", "Smith"),
    "mesh": ("Aspirin", "Heart Diseases", "Aspirin, Lysine"),
    "type": ("Review", "systematic review"),
    "language": ("eng",),
    "retracted": ("yes", "no"),
}


def metadata(row):
    """What document ``row`` has: every third nothing, lists of several lengths, dates of all precisions."""
    if row % 3 == 2:
        return None
    fields = {"date": ("2014", "2015-03", "2016-12-31", "2017-01-01")[row % 4], "retracted": row % 7 == 0}
    fields["url"] = f"https://pubmed.ncbi.nlm.nih.gov/{row}/"
    if row % 5:
        fields["journal"] = ("N Engl J Med", "BMJ", 'Ängström\'s "J"', "Med")[row % 4]
    if row % 2:
        fields |= {
            "types": ["Review"] if row % 4 == 1 else ["Systematic Review", "Letter"],
            "languages": ["eng", "ger"],
        }
    if row % 4:
        fields["mesh"] = [["Aspirin"], ["Heart Diseases", "Aspirin, Lysine"], ["Aspirin", "Heart Diseases"]][row % 3]
        fields["authors"] = ["Smith J", "The Heart Group", "Smith JA"][row % 3 :]
    return fields


@pytest.fixture(scope="module")
def dated(tmp_path_factory, documents):
    """The documents of the tests with metadata."""
    having = (document._replace(metadata=metadata(row)) for row, document in enumerate(documents))
    return rp.build_index(having, tmp_path_factory.mktemp("dated") / "index")


def fits(fields, filter):
    """Whether a document with this metadata, or None, fits a filter, in plain Python."""

    def has(field, value):
        stored = (fields or {}).get(FILTERS[field])
        if field == "retracted":
            return bool(stored) == (value == "yes")
        if stored is None:
            return False
        if field == "year":
            first, dash, last = value.partition("-")
            return (first or "0000") <= stored[:4] <= ((last or "9999") if dash else first)
        if field == "author":  # initials may be missing
            stored = [name[:end] for name in stored for end in (5, 7, 8, len(name)) if end != 5 or name[5:6] == " "]
        return folded(value) in map(folded, [stored] if isinstance(stored, str) else stored)

    def some(field, values):
        return any(has(field, value) for value in values)

    return all(some(*group) for group in filter.values) and not any(some(*group) for group in filter.excluded)


filters = st.dictionaries(
    st.sampled_from([f"{word}{field}" for word in ("", "AND ", "NOT ") for field in VALUES]),
    st.none(),
    min_size=1,
    max_size=3,
).flatmap(
    lambda chosen: st.fixed_dictionaries(
        {
            field: st.lists(st.sampled_from(VALUES[field.split()[-1]]), min_size=1, max_size=2, unique=True)
            for field in chosen
        }
    )
)


@given(filters)
def test_a_filter_keeps_the_documents_whose_metadata_fit(dated, values):
    filter = Filter.of(values)
    assert dated.fitting(filter).tolist() == [fits(metadata(row), filter) for row in range(len(dated))]


QUERIES = ("aspirin stroke cancer vaccines twins", "risk of breast cancer in women", "migraine", "xylitolxyz")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("depth", [2, 40])
def test_lucene_filters_before_the_cut(dated, name, depth):
    """The same scores as without; RM3's depend on the feedback documents, which have to fit, too."""
    stage = dated.first_stage(LuceneConfig(name))
    for text, values in product(
        QUERIES, ({"year": "2015-"}, {"type": "review", "language": "ENG"}, {"author": "Smith J"})
    ):
        filter = Filter.of(values)
        candidates = stage.search(Query("q", text, filter), depth)
        everything = stage.search(Query("q", text), 40)
        kept = dated.fitting(filter)[everything.rows]
        if name == "bm25+rm3":
            assert dated.fitting(filter)[candidates.rows].all()
            before = dated.first_stage(LuceneConfig()).search(Query("q", text, filter), 40)
            assert len(candidates) >= min(len(before), depth) and (depth < 40 or set(before.ids) <= set(candidates.ids))
        else:
            assert candidates.ids == everything.index.ids.take(everything.rows[kept][:depth])
            np.testing.assert_array_equal(candidates.first_stage_scores, everything.first_stage_scores[kept][:depth])


@pytest.fixture(scope="module")
def encoded(dated, tmp_path_factory):
    """A copy of the index with the vectors of the bundled encoder."""
    from rerank_plugin.encoding.index_encoder import IndexEncoder

    copy = Index(shutil.copytree(dated.folder, tmp_path_factory.mktemp("encoded") / "index"))
    IndexEncoder(copy.forward, "ktrel").encode()
    return copy


@pytest.mark.parametrize("name", ["dense:ktrel", "hybrid", "hybrid+rm3"])
def test_dense_and_hybrid_filter_before_the_cut(encoded, name):
    stage = encoded.first_stage(configure(name))
    for text, values in product(QUERIES[:3], ({"year": "2015-2016"}, {"mesh": ["aspirin", "heart diseases"]})):
        filter = Filter.of(values)
        mask = encoded.fitting(filter)
        candidates = stage.search(Query("q", text, filter), 5)
        assert len(candidates) == 5 and mask[candidates.rows].all()
        fitting = stage.search(Query("q", text, filter), len(encoded)).rows
        assert sorted(fitting) == mask.nonzero()[0].tolist()  # whatever RM3 expands the query with
        if not name.startswith("hybrid"):  # a fusion normalizes the scores of what is found
            everything = stage.search(Query("q", text), len(encoded))
            assert candidates.rows.tolist() == everything.rows[mask[everything.rows]][:5].tolist()
    assert not len(stage.search(Query("q", "aspirin", Filter.of({"author": "nobody"})), 5))


@pytest.mark.parametrize("name", [*NAMES, "dense:ktrel", "hybrid", "hybrid+rm3"])
@pytest.mark.parametrize("text", ["stroke", "xylitolxyz", ""])
def test_a_strategy_decides_the_set_and_words_rank_it(encoded, name, text):
    """Whatever a first stage finds; those without a word or a vector are last."""
    pipeline = OpenPipeline(encoded, encoded.first_stage(configure(name)), depth=3)
    filter = Filter(Filter.of({"year": "2014-2016"}).values, strategy=Reader().read("(aspirin OR cancer) NOT breast"))
    candidates, fits = pipeline.candidates(Query("q", text, filter)), encoded.fitting(filter)
    assert encoded.matches(filter).total == len(candidates) > 3 and fits[candidates.rows].all()
    assert len({*candidates.rows.tolist()}) == len(candidates) and (np.diff(candidates.first_stage_scores) <= 0).all()
    if not text:
        dates = [metadata(row).get("date") for row in candidates.rows]
        assert dates == sorted(dates, reverse=True)
    else:
        ranked = pipeline.first_stage.search(Query("q", text, filter), len(encoded)).rows.tolist()
        assert candidates.rows[: len(ranked)].tolist() == ranked


def test_searches_end_with_the_time_of_the_thread(dated, monkeypatch):
    """Lucene's searches too; the set is found in steps, which give what one step gives."""
    index, filter = dated, Filter((), strategy=Reader().read("heart OR trial* OR 2010:2015[dp]"))
    query, stage = Query("q", "heart", filter), configure("bm25").open(index)
    expected, searched = index.fitting(filter), stage.search(query, 50).ids
    monkeypatch.setattr(lucene_reader, "FIRST_DOCUMENTS", 3)
    again = Index(dated.folder)
    with within(60):
        assert 0 < expected.sum() < len(expected) and (again.fitting(filter) == expected).all()
        assert again.count(filter) == expected.sum() and list(stage.search(query, 50).ids) == list(searched)
    for late in (again._matches, again.count, lambda _: stage.search(query, 50)):
        with within(0), pytest.raises(LateError, match="longer than 0 seconds"):
            late(filter)
    asked = count()

    def search_until_asked():
        with stopping(lambda: next(asked) >= 1), within(60):  # not at the beginning, but in Lucene
            return stage.search(query, 50)

    with ThreadPoolExecutor(1) as pool:
        assert isinstance(pool.submit(search_until_asked).exception(), Stopped) and next(asked) > 1


def test_a_search_that_lucene_ended_is_late_with_time_of_the_processor_left(index):
    """A machine with too much to do: the clock goes on while the thread waits."""
    reader = index.open_lucene()
    query = lucene_reader.java_class("org.apache.lucene.search.MatchAllDocsQuery")()
    with within(60, working=0.2):
        searcher = lucene_reader.limited(lucene_reader.java_class("org.apache.lucene.search.IndexSearcher")(reader))
        time.sleep(0.25)
        assert searcher.search(query, 50).scoreDocs == []  # not all, and none that says so
        with pytest.raises(LateError):
            lucene_reader.check_ended(searcher)
    reader.close()


@pytest.mark.parametrize("first_stage", ["bm25", "hybrid"])
def test_a_searcher_filters_one_query_and_many(encoded, first_stage):
    texts, values = ["aspirin", "stroke cancer"], {"year": ["2015", "2016"], "type": "Review"}
    with Searcher(encoded, "delta", first_stage) as searcher:
        for filter in (values, Filter.of(values)):
            hits_by_query = searcher.batch_search(texts, filter=filter)
            assert list(hits_by_query.values()) == [searcher.search(text, filter=filter) for text in texts]
            rows = encoded.forward.rows([hit.docid for hits in hits_by_query.values() for hit in hits])
            assert len(rows) and encoded.fitting(Filter.of(values))[rows].all()
        assert searcher.search("aspirin", filter={}) == searcher.search("aspirin")


def test_filters_that_are_none(dated):
    with Searcher(dated) as searcher, Searcher(dated, first_stage="all") as unfiltered:
        for each, filter, message in (
            (searcher, "type:Review", "a filter is a Filter or a mapping, as .*, not str"),
            (searcher, {5: "Review"}, "a filter is a mapping of fields to values, as .*, not {5: 'Review'}"),
            (searcher, {"type": []}, "each field a value or more"),
            (searcher, {"year": 20.15}, "the filter year has the value 20.15: expected a text"),
            (searcher, {"colour": "red"}, "unknown filter 'colour'; known: year"),
            (unfiltered, {"type": "Review"}, "'all' cannot filter"),
        ):
            with pytest.raises(InputError, match=message):
                each.search("aspirin", filter=filter)


def test_feedback_documents_fit_too(encoded):
    stage = encoded.first_stage(configure("dense:ktrel", {"dense_feedback": 3}))
    filter = Filter.of({"type": "Review"})
    candidates = stage.search(Query("q", "aspirin", filter), 40)
    assert candidates.rows.size == encoded.fitting(filter).sum() and encoded.fitting(filter)[candidates.rows].all()
    assert not len(stage.search(Query("q", "aspirin", Filter.of({"author": "nobody"})), 5))


def test_what_cannot_filter_says_so(dated, index):
    query = Query("q", "aspirin", Filter.of({"type": "Review"}))
    for config in (configure("all"), FusionConfig((LuceneConfig(), configure("all")))):
        with pytest.raises(InputError, match=f"'{config.name}' cannot filter .type:review.: use bm25"):
            OpenPipeline(dated, dated.first_stage(config), 10).candidates(query)
    with pytest.raises(InputError, match="no document of .* has the field 'type'; usable filters: none"):
        index.first_stage(LuceneConfig()).search(query, 10)


def test_pyserini_shows_the_stored_documents(dated, documents, lucene_searcher):
    searcher = lucene_searcher(str(dated.lucene_folder))
    for row in (0, 7, 14, 20):
        id, title, abstract, _ = documents[row]
        expected = {"id": id, "contents": f"{title} {abstract}", "title": title, "abstract": abstract}
        assert json.loads(searcher.doc(id).raw()) == {**expected, **(metadata(row) or {})}
    assert [hit.docid for hit in searcher.search("malaria", 2)]


# The command.


def test_a_list_shows_authors_date_and_journal(dated, capsys):
    search(["--index", str(dated.folder), "--query", "cancer aspirin stroke", "--filter", "journal:bmj"])
    lines = capsys.readouterr().out.splitlines()[1:]
    rows = dated.forward.rows([line.split()[3] for line in lines])
    assert len(rows) > 1
    for line, row in zip(lines, rows):
        mark = "RETRACTED: " if metadata(row)["retracted"] else ""
        authors = metadata(row).get("authors", [])
        by = f"{authors[0]} et al.; " if authors[2:] else f"{', '.join(authors)}; " if authors else ""
        assert line.endswith(f"  {mark}{dated.forward.titles[row]} ({by}BMJ, {metadata(row)['date']})")
    search(["--index", str(dated.folder), "--query", "migraine", "--filter", "retracted:no"])
    assert "BMJ" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "terminal, no_color, mark", [(True, "", "\033[31mRETRACTED:\033[0m"), (True, "1", "RETRACTED:")]
)
def test_a_retracted_article_is_marked_in_red_on_a_terminal(dated, capsys, monkeypatch, terminal, no_color, mark):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("COLUMNS", "1000")
    search(["--index", str(dated.folder), "--query", "cancer aspirin stroke", "--show", "500"])
    for line in capsys.readouterr().out.splitlines()[1:]:
        row = dated.forward.rows([line.split()[3]])[0]
        title = dated.forward.titles[row]
        assert line.partition(title)[0].endswith(f"  {mark} " if (metadata(row) or {}).get("retracted") else "  ")


def test_a_run_holds_only_what_fits(dated, tmp_path):
    (tmp_path / "q.tsv").write_text("1\taspirin stroke\n2\tcancer\n")
    arguments = f"--index {dated.folder} --queries {tmp_path}/q.tsv --output {tmp_path}/a.run --filter type:review"
    search([*arguments.split(), "--filter", "type:systematic review"])
    ids = [id for ranked in read_run(tmp_path / "a.run").values() for id in ranked.doc_ids]
    types = [metadata(row).get("types") for row in dated.forward.rows(ids)]
    assert len(types) > 1 and all(types)


@pytest.mark.parametrize(
    "more, said",
    [
        ("--filter color:red", "unknown filter 'color'; known: year, "),
        ("--filter type:Review --first-stage all", "the first stage 'all' cannot filter"),
        ("--filter type:Review --run a.run --reranker bm25-title", "--filter is for searches"),
    ],
)
def test_what_the_command_refuses(dated, refused, tmp_path, more, said):
    (tmp_path / "q.tsv").write_text("1\taspirin\n")
    assert said in refused(f"search --index {dated.folder} --queries q.tsv --output a.run {more}")
    assert not (tmp_path / "a.run").exists()
