"""Click logs: reading, the papers' formulas, filters of queries, and the written folder."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.base.errors import InputError
from rerank_plugin.clicks import logs as click_logs
from rerank_plugin.clicks.judgments import balanced, filtered, formula, grades, split, write
from rerank_plugin.clicks.logs import (
    ClickLog,
    Counts,
    LoggedQuery,
    derived_id,
    filters,
    has_field,
    is_author_search,
    is_boolean,
    merged,
)
from rerank_plugin.corpora import Query, judgments, queries, queries_and_judgments
from rerank_plugin.corpora.formats import beir
from rerank_plugin.files.runs import read_run

PAPERS = filters(7, 21, 3)
HEADER = "query\tdocument\timpressions\tsummary_clicks\tfull_text_clicks\tfull_text\n"
LOG = HEADER + (
    "heart  attack\td1\t5\t2\t1\t1\n"
    "heart attack\td2\t5\t1\t0\t0\n"
    "asthma\td1\t2\t0\t0\t0\n"
    " heart attack \td1\t7\t1\t1\t1\n"
    "\n"
    "heart attack\td3\t3\t0\t0\t0\r\n"
)


def read(path):
    return click_logs.read(Path(path))


@pytest.mark.parametrize("name", ["log.tsv", "log.tsv.gz"])
def test_lines_of_the_same_pair_are_added_up(put, name):
    log = read(put(name, LOG))
    assert log == ClickLog(
        {
            derived_id("heart attack"): LoggedQuery(
                "heart attack", {"d1": Counts(12, 3, 2), "d2": Counts(5, 1, 0), "d3": Counts(3, 0, 0)}
            ),
            derived_id("asthma"): LoggedQuery("asthma", {"d1": Counts(2, 0, 0)}),
        },
        {"d1"},
        False,
    )


def test_columns_in_another_order_with_ids_and_others(put):
    text = (
        "day\tfull_text\tquery_id\tdocument\tquery\tfull_text_clicks\tsummary_clicks\timpressions\n"
        "mon\t1\tQ7\td1\tgout\t1\t2\t3\n"
        "tue\t0\tQ7\td1\tgout\t0\t1\t1\n"
        "tue\t0\tQ8\td1\tgout\t0\t0\t1\n"
    )
    log = read(put("log.tsv", text))
    assert log.ids_given and log.full_text == {"d1"}
    assert log.queries == {
        "Q7": LoggedQuery("gout", {"d1": Counts(4, 3, 1)}),
        "Q8": LoggedQuery("gout", {"d1": Counts(1, 0, 0)}),
    }


def test_several_files_are_one_log(put):
    files = [Path(put(name, LOG)) for name in ("one.tsv", "two.tsv.gz")]
    assert click_logs.read(*files) == read(put("both.tsv", LOG + LOG.removeprefix(HEADER)))
    named = Path(put("named.tsv", HEADER.replace("\n", "\tquery_id\n") + "gout\td1\t1\t1\t0\t1\tQ1\n"))
    with pytest.raises(InputError, match=r"named\.tsv:2: some files of the log have query_id and others not"):
        click_logs.read(*files, named)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", r"log\.tsv:1: the header lacks query, document, impressions"),
        (HEADER.replace("full_text\n", "ft\n") + "a\tb\t1\t1\t0\t1\n", r"log\.tsv:1: the header lacks full_text: exp"),
        (HEADER.strip() + "\tquery\n", r"log\.tsv:1: the header names a column twice"),
        (HEADER, r"log\.tsv: holds no clicks"),
        (HEADER + "a\tb\t1\t1\t0\n", r"log\.tsv:2: expected 6 columns, as in the header, found 5"),
        (HEADER + "a\tb\t1\t1\t0\t1\n\na\tb\t1\t-1\t0\t1\n", r"log\.tsv:4: summary_clicks is '-1': expected a whole"),
        (HEADER + "a\tb\tx\t1\t0\t1\n", r"log\.tsv:2: impressions is 'x'"),
        (HEADER + f"a\tb\t{'9' * 4400}\t1\t0\t1\n", r"log\.tsv:2: impressions is '9{40,60}: expected a whole"),
        (HEADER + "a\tb\t1\t1\t1.5\t1\n", r"log\.tsv:2: full_text_clicks is '1\.5'"),
        (HEADER + "a\tb\t1\t1\t0\tyes\n", r"log\.tsv:2: full_text is 'yes': expected 0 or 1"),
        (HEADER + "a\tb\t1\t1\t2\t0\n", r"log\.tsv:2: full_text_clicks is 2 but full_text is 0"),
        (HEADER + " \tb\t1\t1\t0\t1\n", r"log\.tsv:2: the query is empty"),
        (HEADER + "a\tb c\t1\t1\t0\t1\n", r"log\.tsv:2: document is 'b c': expected an id without white space"),
        (HEADER + "a\t\t1\t1\t0\t1\n", r"log\.tsv:2: document is ''"),
        ("query_id\t" + HEADER + "\ta\tb\t1\t1\t0\t1\n", r"log\.tsv:2: query_id is ''"),
        (
            "query_id\t" + HEADER + "7\ta\tb\t1\t1\t0\t1\n7\t a \tb\t1\t1\t0\t1\n7\tc\tb\t1\t1\t0\t1\n",
            r"log\.tsv:4: the query id 7 belongs to 'a' and here to 'c'",
        ),
    ],
)
def test_bad_logs_are_named(put, text, message):
    with pytest.raises(InputError, match=message):
        read(put("log.tsv", text))


def test_queries_that_differ_in_letter_case_are_merged():
    spelled = {
        "1": LoggedQuery("Gout Diet", {"a": Counts(1, 1, 0), "b": Counts(2, 0, 0)}),
        "2": LoggedQuery("gout diet", {"a": Counts(3, 1, 1)}),
        "3": LoggedQuery("gout", {"a": Counts(1, 0, 0)}),
        "4": LoggedQuery("GOUT", {"a": Counts(1, 0, 0)}),
    }
    expected = {
        derived_id("gout diet"): LoggedQuery("gout diet", {"a": Counts(4, 2, 1), "b": Counts(2, 0, 0)}),
        derived_id("gout"): LoggedQuery("GOUT", {"a": Counts(2, 0, 0)}),
    }
    assert merged(spelled) == merged(dict(reversed(spelled.items()))) == expected


# ---- formulas ----

QUERY = LoggedQuery(
    "q",
    {
        "full": Counts(9, 3, 2),  # full text is there, and was asked for
        "missing": Counts(9, 1, 0),
        "ignored": Counts(9, 1, 0),  # full text is there, and was not asked for
        "shown": Counts(9, 0, 0),
    },
)
AVAILABLE = {"full", "ignored", "elsewhere"}


@pytest.mark.parametrize(
    "parameters, full, missing, ignored",
    [
        # c_w: 0.333*3 + 0.667*2 = 2.333; 0.333 + 0.067 = 0.4; 0.333; 0. Their sum is 3.066.
        (("d18",), 1 + 99 * 0.7609263, 1 + 99 * 0.1304631, 1 + 99 * 0.1086106),
        (("d17",), 2.33, 0.3966667, 0.33),  # 0.33*3 + 0.67*2; 0.33 + 1/15; 0.33; 0
        (("d18", 0.5, 1.0), 56, 34, 12),  # c_w 0.5*3 + 0.5*2 = 2.5, 0.5 + 1 = 1.5, 0.5; sum 4.5
        (("d17", 0.5, 2.0), 2.5, 1, 0.5),
    ],
)
def test_the_formulas_by_hand(parameters, full, missing, ignored):
    levels = grades(QUERY, AVAILABLE, formula(*parameters))
    assert levels == pytest.approx({"full": full, "missing": missing, "ignored": ignored, "shown": 0}, abs=1e-5)
    assert list(levels) == sorted(levels) and type(levels["shown"]) is int


counts = st.builds(Counts, *[st.integers(0, 1000)] * 3)


@given(st.dictionaries(st.text("abc", min_size=1), counts, min_size=1), st.sets(st.text("abc", min_size=1)))
def test_levels_of_any_query(documents, available):
    """Against the formulas written out plainly."""
    query = LoggedQuery("q", documents)
    d17, d18 = (grades(query, available, formula(name)) for name in ("d17", "d18"))
    plain17, weighted = {}, {}
    for id, (_, c, f) in documents.items():
        missing = 0 if id in available else 1
        plain17[id] = 0.33 * c + (1 - 0.33) * f + 1 / 15 * missing * c
        weighted[id] = (0.333 + missing * 0.067) * c + (1 - 0.333) * f
    total = sum(weighted.values())
    assert d17 == pytest.approx(plain17)
    assert d18 == pytest.approx({id: 1 + 99 * w / total if w else 0 for id, w in weighted.items()})


@pytest.mark.parametrize("arguments", [("d19",), ("d18", 0), ("d17", 1), ("d18", math.nan), ("d18", 0.3, 0)])
def test_invalid_formulas(arguments):
    with pytest.raises(InputError, match="d19|mu is|lambda is"):
        formula(*arguments)


# ---- filters ----


@pytest.mark.parametrize(
    "test, yes, no",
    [
        (
            is_boolean,
            ["asthma AND children", "asthma OR wheeze", "asthma NOT adult", "ASTHMA AND COPD", "(asthma)AND(copd)",
             '"asthma"OR"copd"'],
            ["cats and dogs", "ORAL care", "HAND foot mouth", "AND-gate", "bone (vertebral)", ""],
        ),
        (
            has_field,
            ["asthma[ti]", "smith j[au]", "smith j [Author]", "Humans[MeSH Terms:noexp]", "2010:2015[dp]",
             "asthma [Title/Abstract]", "heart attack[tiab:~2]", "free full text[sb]"],
            ["[18F]FDG PET", "benzo[a]pyrene", "asthma [review", "asthma []", "title of abstract"],
        ),
        (
            is_author_search,
            ["Smith JA", "Smith J", "Smith J.A.", "O'Brien K", "McDonald RH", "van der Berg P, Smith JA",
             "Smith JA; Jones B", "García-Márquez G", "Ångström A", "Smith JA asthma", "asthma Smith JA", "Li X"],
            ["Smith J asthma", "Vitamin D", "Hepatitis B vaccine", "Brain CT", "Influenza A", "Diabetes mellitus",
             "smith ja", "Smith", "COPD UK", "Jane Smith", "van der", "IL 6", "A B", "", "?!"],
        ),
    ],
)  # fmt: skip
def test_boolean_queries_field_tags_and_author_searches(test, yes, no):
    assert [text for text in yes + no if test(text)] == yes


def test_a_full_text_click_is_a_click():
    query = LoggedQuery("a", {f"d{n}": Counts(0, 0, 1) for n in range(3)})
    assert filtered(ClickLog({"a": query}, set(), True), *filters(7, 3, 3)).queries == {"a": query}


def test_letter_case_counts_for_filters_and_then_no_more():
    """Two spellings have enough documents together only; the one in capitals that is boolean is not among them."""
    texts = ("Gout and diet", "gout and diet", "GOUT AND DIET")
    log = ClickLog(
        {
            derived_id(text): LoggedQuery(text, {f"{text[:1]}{text[1]}{n}": Counts(1, 1, 0) for n in range(11)})
            for text in texts
        },
        set(),
        False,
    )
    kept = filtered(log, *PAPERS)
    assert [(query.text, len(query.documents)) for query in kept.queries.values()] == [("Gout and diet", 22)]
    assert list(kept.queries) == [derived_id("gout and diet")] and kept.merged == 1


# ---- splits, balance, the folder ----


def test_a_split_is_drawn_by_chance_and_not_by_order():
    ids = [f"q{n}" for n in range(1000)]
    parts = split(ids, 42)
    assert {name: len(part) for name, part in parts.items()} == {"train": 600, "dev": 200, "test": 200}
    assert sorted(id for part in parts.values() for id in part) == sorted(ids)
    assert split(ids[::-1], 42) == parts != split(ids, 43)
    # of the 600 lowest ids, about 60% are in train: 360, with a standard deviation of 7.6
    assert 320 < len(set(sorted(ids)[:600]) & set(parts["train"])) < 400


def test_too_few_queries_for_three_splits():
    assert all(split("abcd", 0).values())
    with pytest.raises(InputError, match="3 queries are left, too few .* loosen the filters"):
        split("abc", 0)


def test_balancing_by_hand():
    judged = {f"r{n:02}": float(n) for n in range(1, 31)} | {f"n{n:02}": 0 for n in range(50)}
    taken = balanced(judged, 20, 1, "q")
    assert {id for id in taken if id[0] == "r"} == {f"r{n}" for n in range(11, 31)}
    assert sum(id[0] == "n" for id in taken) == 20 and list(taken) == sorted(taken)
    assert all(judged[id] == level for id, level in taken.items())
    assert balanced(dict(reversed(judged.items())), 20, 1, "q") == taken
    assert taken not in (balanced(judged, 20, 2, "q"), balanced(judged, 20, 1, "other"))
    few = {"a": 1.5, "b": 2.5, "c": 0.5, "n": 0}
    assert balanced(few, 20, 1, "q") == few
    assert len(balanced({"a": 1.5, "n": 0, "m": 0}, 20, 1, "q")) == 2
    assert balanced({**few, "m": 0}, 1, 1, "q").keys() in ({"b", "n"}, {"b", "m"})


def test_chance_decides_between_equally_relevant_documents():
    judged = {"low": 1.0, **{f"d{n}": 2.0 for n in range(10)}}
    taken = {frozenset(balanced(judged, 5, seed, "q")) for seed in range(20)}
    assert len(taken) > 10 and all(len(ids) == 5 and "low" not in ids for ids in taken)


SPLITS = {"train": 12, "dev": 4, "test": 4}  # of 20 queries with 30 documents, the first of them clicked
LOGGED = {
    derived_id(text): LoggedQuery(text, {f"d{d}": Counts(5, max(3 + q - d, 0), 0) for d in range(30)})
    for q, text in enumerate(f"query about x{q}" for q in range(20))
}
FULL_TEXT = {f"d{d}" for d in range(1, 30, 2)}


def made(folder, name="d18", logged=LOGGED, **options):
    """A folder written of the log, and the judgments of its splits."""
    summary = write(folder, ClickLog(logged, FULL_TEXT, False), formula(name), *PAPERS, **{"seed": 1, **options})
    return summary, {name: judgments(f"{folder}:{name}") for name in SPLITS}


def test_a_folder_is_read_like_any_other(tmp_path):
    folder = tmp_path / "made" / "clicks"
    summary, judged = made(folder, source="log.tsv", seed=7)
    assert [path.name for path in folder.parent.iterdir()] == ["clicks"]
    assert list(beir.splits(folder)) == ["dev", "test", "train"]
    assert {name: part["queries"] for name, part in summary.splits.items()} == SPLITS and summary.read == 20
    assert queries(str(folder)) == [Query(id, LOGGED[id].text) for id in sorted(LOGGED)]
    for name, of_split in judged.items():
        assert len(of_split) == SPLITS[name]
        assert queries_and_judgments(f"{folder}:{name}") == (queries(f"{folder}:{name}"), of_split)
        assert [query.id for query in queries(f"{folder}:{name}")] == sorted(of_split)
        run = read_run(folder / "runs" / f"{name}.run")
        assert {id: list(ranking.doc_ids) for id, ranking in run.items()} == {
            id: sorted(of_query, reverse=True) for id, of_query in of_split.items()
        }
    together = {id: of_query for of_split in judged.values() for id, of_query in of_split.items()}
    assert together == {
        id: grades(query, FULL_TEXT, formula("d18")) for id, query in LOGGED.items()
    }  # to the last digit
    described = json.loads((folder / "clicks.json").read_text())
    assert (described["formula"], described["mu"], described["lambda"], described["seed"]) == ("d18", 0.333, 0.067, 7)
    assert described["splits"]["test"]["documents"] == 120 and described["log"] == "log.tsv"


def test_the_order_of_the_log_does_not_count_and_the_seed_does(tmp_path):
    backwards = {
        id: LoggedQuery(text, dict(reversed(documents.items()))) for id, (text, documents) in reversed(LOGGED.items())
    }
    written = []
    for logged, seed in ((LOGGED, 1), (backwards, 1), (LOGGED, 2)):
        folder = tmp_path / str(len(written))
        made(folder, "d17", logged, seed=seed, balance=5)
        files = [folder / "queries.jsonl", *folder.rglob("*.tsv")]
        written.append({path.name: path.read_bytes() for path in files})
    assert written[0] == written[1] and written[0]["train.tsv"] != written[2]["train.tsv"]
    assert written[0]["queries.jsonl"] == written[2]["queries.jsonl"]


def test_the_test_split_is_not_balanced(tmp_path):
    (_, expected), (_, judged) = (made(tmp_path / str(balance), balance=balance) for balance in (None, 2))
    for name in ("train", "dev"):
        expected[name] = {id: balanced(levels, 2, 1, id) for id, levels in expected[name].items()}
    assert judged == expected


def test_a_folder_that_is_there(tmp_path, put):
    (tmp_path / "empty").mkdir()
    made(tmp_path / "empty")
    with pytest.raises(InputError, match="exists already.*overwrite"):
        made(tmp_path / "empty")
    made(tmp_path / "empty", overwrite=True)
    with pytest.raises(InputError, match="is a file"):
        made(Path(put("log.tsv", LOG)), overwrite=True)
    (tmp_path / "collection").mkdir()
    for name in ("queries.jsonl", "corpus.jsonl"):
        (tmp_path / "collection" / name).write_text("")
    with pytest.raises(InputError, match="is not a folder made of a click log"):
        made(tmp_path / "collection", overwrite=True)
