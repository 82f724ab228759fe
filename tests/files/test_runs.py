"""Run files: the order, the scores that keep it, reading, writing, and resuming."""

import gzip
import json
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.base.errors import InputError
from rerank_plugin.files import runs
from rerank_plugin.files.run_writer import RunWriter
from rerank_plugin.files.runs import (
    RankedList,
    format_ranking,
    read_run,
    run_files,
    sort_order,
    strictly_decreasing,
    write_run,
)

LARGEST = np.finfo(np.float32).max
# A byte order mark at the start of a file is not part of the first id, so no id may begin with one here.
ids = st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"], exclude_characters="\ufeff"), min_size=1, max_size=6)
floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
few_floats = st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-45, float(LARGEST), -float(LARGEST)])


def array(*values):
    return np.array(values, dtype=np.float32)


def plain_order(doc_ids, scores):
    """The rule, word by word: by id downward, then stably by float32 score downward."""
    by_id = sorted(range(len(doc_ids)), key=lambda at: doc_ids[at].encode(), reverse=True)
    return sorted(by_id, key=lambda at: float(np.float32(scores[at])), reverse=True)


def plain_decreasing(scores):
    """One score after the other, with nextafter; only for scores with room below them."""
    result = []
    for score in scores:
        below = np.nextafter(result[-1], np.float32(-np.inf)) if result else score
        result.append(min(np.float32(score), below))
    return np.array(result, dtype=np.float32)


# --- order


def test_ties_go_to_the_larger_id_by_string_comparison():
    assert sort_order(["10", "9", "100", "a", "B"], array(1, 1, 1, 1, 2)).tolist() == [4, 3, 1, 2, 0]
    assert sort_order(["a", "b"], np.array([1.00000001, 1.0])).tolist() == [1, 0]  # a tie in float32


# --- scores without ties


def test_ties_move_down_by_the_smallest_steps_and_push_close_ones():
    one, below = np.float32(1), np.nextafter(np.float32(1), np.float32(0))
    moved = strictly_decreasing(np.array([one, one, below, 0.5], np.float32))
    assert moved.tolist() == [1.0, float(below), float(np.nextafter(below, np.float32(0))), 0.5]


@given(
    st.lists(
        st.one_of(
            st.floats(width=32, min_value=-(2.0**100), max_value=2.0**100), few_floats.filter(lambda value: value > -2)
        )
    )
)
def test_moving_down_equals_one_step_after_another(values):
    scores = np.sort(np.array(values, np.float32))[::-1]
    assert strictly_decreasing(scores).tolist() == plain_decreasing(scores).tolist()


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -1.0, 1e-45, LARGEST, -LARGEST, np.inf, -np.inf])
def test_a_thousand_equal_scores(value):
    """The lowest floats make room above; a score before them stays."""
    for before in ([], [LARGEST]):
        moved = strictly_decreasing(array(*before, *[value] * 1000))
        assert moved.dtype == np.float32 and np.isfinite(moved).all()
        assert (moved[1:] < moved[:-1]).all() and moved[: len(before)].tolist() == before


# --- format


def test_format():
    text = format_ranking("q1", ["d1", "d2", "d10"], array(0.5, 2, -0.25), "bm25")
    assert text == "q1 Q0 d2 1 2 bm25\nq1 Q0 d1 2 0.5 bm25\nq1 Q0 d10 3 -0.25 bm25\n"
    text = format_ranking("q", ["b", "c", "a"], array(1, 1, 1), "t")
    assert text == "q Q0 c 1 1 t\nq Q0 b 2 0.99999994 t\nq Q0 a 3 0.999999881 t\n"


@pytest.mark.parametrize(
    "query, doc_ids, scores, tag, message",
    [
        ("q", ["a", "b"], [1, np.nan], "t", "query q, document b: the score nan"),
        ("q", ["a", "b"], [-np.inf, 1], "t", "query q, document a: the score -inf"),
        ("q", ["a", "b"], [1e39, 1], "t", "query q, document a: the score inf"),
        ("q", ["a", "a"], [2, 1], "t", "query q: document a is ranked twice"),
        ("q", ["a", "b"], [1], "t", "query q: 2 documents have scores of shape"),
        ("q", ["a", "b c"], [1, 2], "t", "query q: document id 'b c'"),
        ("q", ["a", ""], [1, 2], "t", "query q: document id ''"),
        ("q", ["a", "b\u2028"], [1, 2], "t", "query q: document id 'b"),
        ("q\t1", ["a"], [1], "t", "query id 'q"),
        ("", ["a"], [1], "t", "query id ''"),
        ("q", ["a"], [1], "my tag", "run tag 'my tag'"),
    ],
)
def test_invalid_runs(query, doc_ids, scores, tag, message):
    with pytest.raises(InputError, match=message):
        format_ranking(query, doc_ids, np.array(scores, dtype=np.float64), tag)


# --- reading and writing


@given(st.dictionaries(ids, st.dictionaries(ids, st.one_of(floats, few_floats), min_size=1, max_size=12), max_size=4))
def test_written_runs_read_the_same(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("run") / "a.run"
    run = {query: RankedList(list(docs), np.array(list(docs.values()), np.float32)) for query, docs in content.items()}
    write_run(path, run, "tag")
    first = path.read_bytes()
    found = read_run(path)
    assert list(found) == list(run)
    for query, (doc_ids, scores) in run.items():
        order = plain_order(doc_ids, scores)
        assert found[query].doc_ids == [doc_ids[at] for at in order]
        assert found[query].scores.dtype == np.float32
        assert found[query].scores.tolist() == strictly_decreasing(scores[order]).tolist()
    write_run(path, found, "tag", overwrite=True)
    assert path.read_bytes() == first


def test_foreign_files(tmp_path):
    text = "\ufeff1\tQ0  d1 1\t0.5 x\r\n\n2 Q0 d9 1 7 x\n 1 Q0 d2 9 1e0 x \n1 Q0 d3 2 0.5 x"
    (tmp_path / "a.run.gz").write_bytes(gzip.compress(text.encode()))
    found = read_run(str(tmp_path / "a.run.gz"))
    assert {query: ranking.doc_ids for query, ranking in found.items()} == {"1": ["d2", "d3", "d1"], "2": ["d9"]}
    assert found["1"].scores.tolist() == [1.0, 0.5, 0.5]


def test_a_run_of_ms_marco_has_reciprocal_ranks_as_scores(tmp_path):
    (tmp_path / "a.tsv").write_text("2\td9\t2\n1\td1\t1\n2\td8\t1\n2\tda\t4\n")
    assert [path.name for path in run_files(tmp_path)] == ["a.tsv"]
    found = {
        query: (ranking.doc_ids, ranking.scores.tolist()) for query, ranking in read_run(tmp_path / "a.tsv").items()
    }
    assert found == {"2": (["d8", "d9", "da"], [1, 0.5, 0.25]), "1": (["d1"], [1])}


@pytest.mark.parametrize(
    "line, message",
    [
        ("1 d2 1", "a.run:2: query 1 has rank 1 twice: are these judgments"),
        ("1 d2 0", "a.run:2: the rank '0' is not a whole number from 1 on"),
        ("1 d2 1.5", "a.run:2: the rank '1.5'"),
        ("1 d1 2", "a.run:2: query 1 ranks document d1 twice"),
        ("1 Q0 d2 2 7 t", r"a.run:2: expected 3 columns \(query document rank\), found 6"),
    ],
)
def test_malformed_lines_of_three_columns_are_named(tmp_path, line, message):
    (tmp_path / "a.run").write_text(f"1 d1 1\n{line}\n")
    with pytest.raises(InputError, match=message):
        read_run(tmp_path / "a.run")


@pytest.mark.parametrize(
    "line, message",
    [
        ("1 Q0 d2 1 0.5", r"a\.run:2: expected 6 columns .* found 5"),
        ("1 Q0 d2 1 0.5 t x", r"a\.run:2: expected 6 columns .* found 7"),
        ("1 Q0 d2 1 high t", r"a\.run:2: the score 'high' is not a number"),
        ("1 Q0 d2 1 1_000 t", r"a\.run:2: the score '1_000' is not a number"),
        ("1 Q0 d2 1 nan t", r"a\.run:2: the score nan of document d2"),
        ("1 Q0 d2 1 -inf t", r"a\.run:2: the score -inf of document d2"),
        ("1 Q0 d2 1 1e39 t", r"a\.run:2: the score 1e39 of document d2"),
        ("1 Q0 d2 1 3.4028236e38 t", r"a\.run:2: the score 3.4028236e38"),  # the next number after the largest float32
        ("1 Q0 d1 1 0.1 t", r"a\.run:2: query 1 ranks document d1 twice"),
    ],
)
def test_malformed_lines_are_named(tmp_path, line, message):
    (tmp_path / "a.run").write_text(f"1 Q0 d1 1 0.9 t\n{line}\n")
    with pytest.raises(InputError, match=message):
        read_run(tmp_path / "a.run")


def test_a_pipe_of_a_run_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "MOST_PIPED", 2)
    text = "".join(f"q Q0 d{rank} {rank} {9 - rank} tag\n" for rank in (1, 2, 3))
    (tmp_path / "a.run").write_text(text)
    assert len(read_run(tmp_path / "a.run")["q"].doc_ids) == 3
    reading, writing = os.pipe()
    with open(reading):
        with open(writing, "w") as pipe:
            pipe.write(text)
        with pytest.raises(InputError, match="a pipe of more than 2 lines of a run: name a file"):
            read_run(f"/dev/fd/{reading}")


def test_gz_and_a_failed_write(tmp_path):
    run, path = {"q": RankedList(["a", "b"], array(2, 1))}, tmp_path / "new" / "a.run.gz"
    write_run(path, run, "t")
    write_run(tmp_path / "b.run.gz", run, "t")
    packed = path.read_bytes()
    assert packed == (tmp_path / "b.run.gz").read_bytes() and read_run(path)["q"].doc_ids == ["a", "b"]
    assert gzip.decompress(packed) == b"q Q0 a 1 2 t\nq Q0 b 2 1 t\n"
    with pytest.raises(InputError, match="the score nan"):
        write_run(path, {**run, "p": RankedList(["a"], array(np.nan))}, "t", overwrite=True)
    assert path.read_bytes() == packed and list(path.parent.iterdir()) == [path]


def test_missing_and_unwritable(tmp_path):
    with pytest.raises(InputError, match="none.run"):
        read_run(tmp_path / "none.run")
    (tmp_path / "file").write_text("")
    for writing in (lambda path: write_run(path, {}, "t"), lambda path: RunWriter(path, "t", {})):
        with pytest.raises(InputError, match="a.run: cannot be written"):
            writing(tmp_path / "file" / "a.run")


# --- interrupted searches

SETTINGS = {"depth": 10, "index": "indexes/a", "run": None, "fields": ("title", "abstract")}
RANKINGS = {
    "q1": (["b", "a"], array(1, 1)),
    "leer": ([], array()),
    "q2": (["c"], array(-3)),
    "q3": (["b", "ä"], array(0.2, 0.1)),
}


def interrupted(path, number, error=KeyboardInterrupt, **kwargs):
    """Write the first queries, then stop."""
    with pytest.raises(error), RunWriter(path, "tag", SETTINGS, **kwargs) as writer:
        for query in list(RANKINGS)[:number]:
            writer.write_ranked(query, *RANKINGS[query])
        raise error


def finish(path, resume=True, overwrite=False):
    with RunWriter(path, "tag", SETTINGS, resume, overwrite) as writer:
        done = set(writer.finished)
        for query in RANKINGS:
            if not writer.complete and query not in writer.finished:
                writer.write_ranked(query, *RANKINGS[query])
    return done


@pytest.fixture
def expected(tmp_path):
    """The run of an uninterrupted writer."""
    folder = tmp_path / "expected"
    finish(folder / "a.run", resume=False)
    assert [path.name for path in folder.iterdir()] == ["a.run"]
    data = (folder / "a.run").read_bytes()
    assert data == b"".join(format_ranking(query, *RANKINGS[query], "tag").encode() for query in RANKINGS)
    return data


def test_every_moment_of_a_kill(tmp_path, expected):
    """Cut the run and its journal wherever a killed process may have stopped."""
    whole = tmp_path / "whole" / "a.run"
    interrupted(whole, 4)
    assert not whole.exists()
    part, journal = ((whole.parent / f"a.run.part{suffix}").read_bytes() for suffix in ("", ".journal"))
    path = tmp_path / "cut" / "a.run"
    path.parent.mkdir()
    seen = set()
    for run_end in range(len(part) + 1):
        for journal_end in range(0, len(journal) + 1, 1 if run_end in (0, 30, len(part)) else 7):
            path.unlink(missing_ok=True)
            path.with_name("a.run.part").write_bytes(part[:run_end])
            path.with_name("a.run.part.journal").write_bytes(journal[:journal_end])
            if run_end and journal_end <= journal.index(b"\n"):  # no kill leaves that: it is another program's file
                with pytest.raises(InputError, match="was not left by an interrupted search"):
                    finish(path)
                assert path.with_name("a.run.part").read_bytes() == part[:run_end]
                continue
            seen.add(frozenset(finish(path)))
            assert path.read_bytes() == expected, (run_end, journal_end)
            assert list(path.parent.iterdir()) == [path]
    assert seen == {frozenset(list(RANKINGS)[:number]) for number in range(5)}


@pytest.mark.parametrize("torn", [b"", b"4"])
def test_interrupted_twice(tmp_path, expected, torn):
    """The second part must not be appended to a torn line of the journal, or to a block that the journal lacks."""
    path = tmp_path / "runs" / "a.run"
    interrupted(path, 1, error=InputError)
    with open(f"{path}.part.journal", "ab") as journal:
        journal.write(torn)
    with open(f"{path}.part", "ab") as part:
        part.write(b"leer Q0 z 1 1 tag\n" * 100)
    with pytest.raises(RuntimeError), RunWriter(path, "tag", SETTINGS, True) as writer:
        writer.write_ranked("leer", *RANKINGS["leer"])
        writer.write_ranked("q2", *RANKINGS["q2"])
        raise RuntimeError
    assert finish(path) == {"q1", "leer", "q2"}
    assert path.read_bytes() == expected


def test_a_part_is_overwritten_only_when_asked(tmp_path, expected):
    path = tmp_path / "runs" / "a.run"
    interrupted(path, 3)
    with pytest.raises(InputError, match="holds 3 queries of an interrupted search: resume or overwrite it"):
        finish(path, resume=False)
    assert finish(path, resume=False, overwrite=True) == set()
    assert path.read_bytes() == expected


def test_other_settings(tmp_path):
    path = tmp_path / "a.run"
    interrupted(path, 2)
    before = (tmp_path / "a.run.part").read_bytes()
    with pytest.raises(InputError, match=r"a\.run\.part: .*settings: depth was 10 and is 20: ") as caught:
        RunWriter(path, "tag", {**SETTINGS, "depth": 20}, True)
    assert "index" not in str(caught.value)
    with pytest.raises(InputError, match='k1 was null and is 0.9, tag was "tag" and is "other"'):
        RunWriter(path, "other", {**SETTINGS, "k1": 0.9}, True)
    assert (tmp_path / "a.run.part").read_bytes() == before
    assert finish(path) == {"q1", "leer"}


@pytest.mark.parametrize("damage", ["\0\0\0", "1\tleer"])  # no line at all, and a place before that of the last one
def test_a_damaged_journal(tmp_path, expected, damage):
    path = tmp_path / "a.run"
    interrupted(path, 2)
    journal = tmp_path / "a.run.part.journal"
    sound = journal.read_text()
    journal.write_text("{" + sound)
    with pytest.raises(InputError, match="journal: damaged"):
        RunWriter(path, "tag", SETTINGS, True)
    header, first, second = sound.splitlines()
    assert json.loads(header)["settings"]["depth"] == 10
    journal.write_text(f"{header}\n{first}\n{damage}\n{second}\n")  # what follows the damage is not believed
    assert finish(path) == {"q1"} and path.read_bytes() == expected


def swapped(part, journal):
    header, first, second, *rest = journal.splitlines(keepends=True)
    return part, b"".join((header, second, first, *rest))


@pytest.mark.parametrize(
    ("damage", "kept"),
    [
        (swapped, 0),
        (lambda part, journal: (part, journal + journal.splitlines(keepends=True)[1]), 4),
        (lambda part, journal: (part.replace(b"q2 Q0", b"q7 Q0"), journal), 2),
        (lambda part, journal: (b"\n" + part, journal), 0),
        (lambda part, journal: (part, journal.replace(b"q2", b"q9")), 2),
        (lambda part, journal: (part, journal.replace(b"\tq1", b"\t\xff")), 0),
        (lambda part, journal: (part, journal.replace(b"\n", b"\n" + b"9" * 5000 + b"\t", 1)), 0),
    ],
    ids=["order", "repeated line", "changed part", "longer part", "another query", "not UTF-8", "a long number"],
)
def test_only_what_is_as_it_was_written_is_kept(tmp_path, expected, damage, kept):
    path = tmp_path / "a.run"
    interrupted(path, 4)
    files = [path.with_name(f"a.run.part{suffix}") for suffix in ("", ".journal")]
    for file, content in zip(files, damage(*(file.read_bytes() for file in files))):
        file.write_bytes(content)
    assert finish(path) == set(list(RANKINGS)[:kept]) and path.read_bytes() == expected


@pytest.mark.parametrize("name", ["a.run", "a.run.gz"])
def test_a_search_that_overwrites_is_resumed(tmp_path, name):
    path, old = tmp_path / "runs" / name, {"old": (["d"], array(1))}
    with RunWriter(path, "tag", SETTINGS) as writer:
        writer.write_ranked("old", *old["old"])
    before = path.read_bytes()
    with pytest.raises(RuntimeError), RunWriter(path, "tag", SETTINGS, overwrite=True) as writer:
        writer.write_ranked("q1", *RANKINGS["q1"])
        raise RuntimeError
    assert path.read_bytes() == before
    assert finish(path) == {"q1"}
    finish(tmp_path / name, resume=False)
    assert path.read_bytes() == (tmp_path / name).read_bytes() != before and list(path.parent.iterdir()) == [path]


def test_a_part_replaces_no_run_that_came_meanwhile(tmp_path):
    path = tmp_path / "a.run"
    interrupted(path, 1)
    path.write_text("q Q0 d 1 1 mine\n")
    with pytest.raises(InputError, match="exists already"):
        finish(path)
    assert path.read_text() == "q Q0 d 1 1 mine\n" and path.with_name("a.run.part").exists()


def test_a_run_is_on_the_disk_before_it_has_its_name(tmp_path, expected, monkeypatch):
    """Or a loss of power would leave an empty run under it."""
    steps = []

    def synced(descriptor, fsync=os.fsync):
        steps.append(("fsync", os.fstat(descriptor).st_ino, os.fstat(descriptor).st_size))
        fsync(descriptor)

    def renamed(source, target, replace=os.replace):
        steps.append(("rename", os.stat(source).st_ino, os.stat(source).st_size))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    finish(tmp_path / "a.run", resume=False)
    inode = os.stat(tmp_path / "a.run").st_ino
    assert [step for step in steps if step[1] == inode] == [
        (name, inode, len(expected)) for name in ("fsync", "rename")
    ]


@pytest.mark.parametrize("name", ["a.run", "a.run.gz"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_journal_that_is_left_beside_its_run(tmp_path, name, overwrite):
    """As after a kill between the renaming of the part and the removal of the journal."""
    path = tmp_path / "runs" / name
    with RunWriter(path, "tag", SETTINGS) as writer:
        for query in RANKINGS:
            writer.write_ranked(query, *RANKINGS[query])
        writer.rename()
        left = writer.journal_path.read_bytes()
    whole = path.read_bytes()
    writer.journal_path.write_bytes(left)
    with RunWriter(path, "tag", SETTINGS, resume=True, overwrite=overwrite) as again:
        assert again.complete
    assert path.read_bytes() == whole and list(path.parent.iterdir()) == [path]


def test_a_query_is_written_once(tmp_path):
    interrupted(tmp_path / "a.run", 1)
    with pytest.raises(InputError, match="query q1 is written twice"):
        with RunWriter(tmp_path / "a.run", "tag", SETTINGS, True) as writer:
            writer.write_ranked("q1", ["x"], array(1))


def test_a_bad_ranking_leaves_the_queries_before_it(tmp_path):
    path = tmp_path / "a.run"
    for bad in (["d d"], ["\ud800"]):
        with pytest.raises(InputError, match="query q2"):
            with RunWriter(path, "tag", SETTINGS, overwrite=True) as writer:
                writer.write_ranked("q1", *RANKINGS["q1"])
                writer.write_ranked("q2", bad, array(1))
        assert (tmp_path / "a.run.part").read_text() == format_ranking("q1", *RANKINGS["q1"], "tag")
    assert finish(path) == {"q1"}


def test_packed(tmp_path, expected):
    path = tmp_path / "runs" / "a.run.gz"
    interrupted(path, 2)
    assert finish(path) == {"q1", "leer"}
    assert gzip.decompress(path.read_bytes()) == expected and list(path.parent.iterdir()) == [path]
