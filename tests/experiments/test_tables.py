"""The command of the papers' tables."""

import json

import pytest

from experiments.tables import main
from rerank_plugin.base.errors import InputError
from tests.test_evaluate import BAD, GOOD, folder, reader  # noqa: F401


@pytest.fixture
def printed(folder, capsys):  # noqa: F811
    return reader(main, capsys)


@pytest.fixture
def result(printed):
    """The JSON that the command prints."""
    return lambda line, **more: json.loads("".join(printed(f"{line} --format json", **more)[0]))


def test_the_table_of_the_paper(printed):
    line = "good.run bad.run --measures MAP --format paper"
    lines, _ = printed(f"{line} --against ./bad.run=good.run")
    # Differences of bad from good: -.75, -.5, -1; t = -.75 / (.25 / sqrt 3) = -5.2, p .035
    assert lines[2:4] == ["| good.run <sup>1</sup> | **1.000** |", "| bad.run | 0.250 <sup>=1</sup> |"]
    assert "p < 0.01 without correction" in lines[-1]
    lines, _ = printed(f"{line} --alpha 0.05 --against bad.run=good.run --against good.run=bad.run")
    assert lines[2].startswith("| good.run <sup>1</sup> | **1.000** <sup>+2</sup> |")
    assert lines[3] == "| bad.run <sup>2</sup> | 0.250 <sup>-1</sup> |"


def test_table_1_of_the_pacrr_paper(folder, printed):
    (folder / "some.run").write_text(GOOD.replace("q3 Q0 c", "q3 Q0 x"))
    line = "good.run bad.run some.run --format letters"
    lines, _ = printed(f"{line} --measures AP --letters b=./bad.run s=some.run")
    # good - bad .75 .5 1: t 5.2, p .035; good - some 0 0 1: t 1; some - bad .75 .5 0: t 1.89, p .2
    assert lines[0] == "|  | AP |"
    assert lines[2:5] == ["| good.run | **1.000** (B) |", "| bad.run | 0.250 |", "| some.run | 0.667 |"]
    assert "from B bad.run, S some.run (two-tailed paired t-test over 3 queries" in lines[-1]
    assert printed(f"{line} --letters B=bad.run")[0][0] == "|  | ERR@20 | NDCG.20 |"


@pytest.fixture
def folders(folder):
    """Runs before, and after by one method: the good run becomes bad, and the bad one good."""
    for name, text in (("a.run", GOOD), ("b.run", BAD)):
        for kind, of_kind in (("before", text), ("after", GOOD if text == BAD else BAD)):
            (folder / kind).mkdir(exist_ok=True)
            (folder / kind / name).write_text(of_kind)
    return folder


def test_table_2_of_the_pacrr_paper(folders, printed, result):
    line = "--before before after --measures AP"
    out, err = printed(f"{line} --letters A=./after --scatter figures/3.png")
    # AP 1 and .25 (see above) become .25 and 1: -75% and +300%
    assert out[:2] == ["       AP change  AP improved", "after    +112.5%       1 of 2"]
    assert err == [
        "before re-ranking: 1 of 2 runs lack judged queries, which count as 0, e.g. b.run",
        "after: 1 of 2 runs lack judged queries, which count as 0, e.g. a.run",
    ]
    assert (folders / "figures" / "3.png").read_bytes().startswith(b"\x89PNG")
    (folders / "ids").write_text("q2\n")  # AP 1 and .5, and the other way round
    found = result(f"{line} --subset ids")
    assert found["queries"] == 1 and found["measures"]["AP"]["after"]["after"]["average_change"] == 25
    lines, _ = printed("--before before after --format markdown")
    assert lines[0].startswith("|  | ERR@20 change | NDCG.20 change | ERR@20 improved |")


def test_table_3_of_the_pacrr_paper(folder, printed, result):
    (folder / "zero.run").write_text("q1 Q0 b 1 2 t\nq1 Q0 x 2 1 t\nq2 Q0 a 1 9 t\nq2 Q0 x 1 8 t\n")
    lines, _ = printed("good.run --pairs --label 2=HRel 1=Rel")
    assert lines[1].split() == ["HRel", "vs", "Rel", "100.0%", "1", "100.0%"]
    line = "bad.run zero.run --pairs --unjudged-as-nonrelevant"
    found = result(f"{line} --letters B=bad.run")
    # both hold b and x of q1, and a and x of q2
    assert found["documents"] == {"all": 6, "compared": 4, "lacking": {"bad.run": 2, "zero.run": 2}}
    assert found["combinations"][0]["runs"]["bad.run"]["accuracy"] == 0
    assert found["combinations"][0]["runs"]["zero.run"] == {"accuracy": 1, "pooled": 1, "letters": "(B)"}
    assert printed(line)[1][0] == "4 of 6 documents are in all runs; the pairs are of these"
    (folder / "ids").write_text("q2\n")
    assert result(f"{line} --subset ids")["combinations"][0]["pairs"] == 1


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("--pairs --letters bad.run", "--letters bad.run: expected a letter, =, and a baseline; give the runs before"),
        ("--pairs --letters =bad.run", "expected a letter, =, and a baseline"),
        ("--pairs --letters B=bad.run C=./bad.run", "--letters C=./bad.run: bad.run has the letter B already"),
        ("--pairs --letters B=other.run", "other.run has the letter B, but it is not among good.run, bad.run"),
        ("--pairs --label 0=x good.run", "the label good.run: expected a grade"),
        ("--format paper --against bad.run", "--against bad.run: expected a run, =, and its baselines"),
        ("--format paper --against bad.run=", "expected a run, =, and its baselines"),
        ("--format paper --against bad.run=good.run,", "expected a run, =, and its baselines"),
        ("--format paper --against bad.run=other.run", "other.run is not among the runs"),
    ],
)
def test_bad_letters_labels_and_comparisons(printed, arguments, message):
    with pytest.raises(InputError, match=message):
        printed(f"good.run bad.run {arguments}")


def test_a_subset_from_a_file(folder, printed, result):
    (folder / "ids").write_text("q3\nq1\n")
    found = result("bad.run --measures AP --subset ids")
    assert found["queries"] == 2 and found["runs"] == {"bad.run": {"AP": 0.125}}
    assert found["reported"] == {"bad.run": {"missing": ["q3"], "unjudged": ["q9"], "unmatched": []}}
    assert printed("bad.run --measures AP --subset ids")[1][0] == "subset ids: 2 of 3 judged queries"


def test_subsets_of_new_words(folder, printed):
    (folder / "test.tsv").write_text("q1\theart attack\nq2\trenal failure\nq3\theart failure\n")
    (folder / "train.tsv").write_text("t\theart\n")
    (folder / "dev.tsv").write_text("t\tattack\n")
    seen = "--queries test.tsv --seen-queries train.tsv --seen-queries dev.tsv"
    for subset, queries in (("one-new-word", ["q2", "q3"]), ("all-new-words", ["q2"])):
        lines, _ = printed(f"good.run --subset {subset} {seen} --format csv --per-query")
        assert [line.split(",")[1] for line in lines[2:]] == queries


def test_subsets_by_the_overlap_with_training_queries(folder, printed):
    """Relevant are a and b for q1, a for q2 and c for q3; a and x for the training query: a third, a half, nothing."""
    (folder / "train.qrels").write_text("t 0 a 1\nt 0 x 1\n")
    for overlap, queries in (("0-0.3", ["q3"]), ("0.3-0.5", ["q1"]), ("0.5-1", ["q2"])):
        line = f"good.run --subset overlap{overlap} --seen-qrels train.qrels --format csv --per-query"
        assert [row.split(",")[1] for row in printed(line)[0][2:]] == queries


def test_the_subset_of_hard_queries_and_the_sizes_of_all(folder, printed, index_folder):
    """Judgments and candidates over the documents of conftest: "cancer" stands in the titles of 20, 300 and MED-2."""
    (folder / "q.tsv").write_text("q1\tcancer\nq2\ttwins\n")
    (folder / "qrels").write_text("q1 0 20 1\nq2 0 x.1 1\n")
    (folder / "a.run").write_text("q1 Q0 300 1 3 t\nq1 Q0 20 2 2 t\nq1 Q0 MED-2 3 1 t\nq2 Q0 x.2 1 1 t\n")
    line = f"--queries q.tsv --index {index_folder} --subset-run a.run"
    assert printed(f"a.run {line} --subset neg2+ --measures AP --format csv")[0][1:] == ["a.run,all,0.5"]
    lines, _ = printed(f"{line} --describe-subsets")
    assert lines[0] == "|  | Full test data | Neg20+ |" and lines[2:4] == [
        "| Number of queries | 2 | 0 |",
        "| Number of samples | 4 | 0 |",
    ]
    assert lines[-1] == "| -ives with all query terms in title | 100.0% | - |"


@pytest.mark.parametrize(
    "arguments, culprit",
    [
        ("", "RUN"),
        ("good.run --against a=b", "--against needs --format paper"),
        ("good.run --format paper --baseline bad.run", "--format paper takes no --baseline"),
        ("good.run --format paper --per-query", "--per-query"),
        ("good.run --describe-subsets", "takes neither runs nor --subset"),
        ("good.run --subset overlap0-0.3", "needs the judgments of the training queries: --seen-qrels"),
        ("--describe-subsets", "--describe-subsets needs the texts of the queries: --queries"),
        ("--describe-subsets --queries q", "--describe-subsets needs the titles of the documents: --index"),
        ("good.run --subset neg20+ --queries q", "--subset neg20+ needs the titles"),
        ("good.run --subset one-new-word", "--subset one-new-word needs the texts"),
        ("good.run --subset all-new-words --queries q", "needs the training and validation queries"),
        ("good.run --format letters", "--format letters needs the letters of the baselines: --letters"),
        ("good.run --letters G=good.run", "--letters needs --format letters or --before or --pairs"),
        ("good.run --format letters --letters G=good.run --alpha 0.1", "letters takes no --alpha"),
        ("good.run --format letters --letters G=good.run --against a=b", "--against needs --format"),
        ("good.run --scatter x.png", "--scatter needs --before"),
        ("good.run --label 1=Rel", "--label needs --pairs"),
        ("good.run --unjudged-as-nonrelevant", "--unjudged-as-nonrelevant needs --pairs"),
        ("good.run --pairs --measures AP", "--pairs takes no --measures"),
        ("good.run --pairs --highest-grade 4", "--pairs takes no --highest-grade"),
        ("good.run --pairs --baseline bad.run", "--pairs takes no --baseline"),
        ("good.run --pairs --format csv", "--pairs takes no --format csv, but table, markdown, json"),
        ("good.run --pairs --format letters", "give either --pairs or --format letters"),
        ("good.run --pairs --before x", "give either --before or --pairs"),
        ("x --before x --agreement", "--before takes no --agreement"),
        ("x --before x --per-query", "--before takes no --per-query"),
        ("--before x", "RUN"),
        ("--describe-subsets --pairs", "give either --describe-subsets or --pairs"),
    ],
)
def test_options_that_need_or_exclude_one_another(folder, arguments, culprit, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--qrels", "qrels", *arguments.split()])
    assert caught.value.code == 2 and culprit in capsys.readouterr().err
