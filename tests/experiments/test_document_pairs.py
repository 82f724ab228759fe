"""Table 3 of the PACRR paper by hand, and against counting pair by pair."""

import json
import random

import numpy as np
import pytest

from experiments.document_pairs import document_pairs, parse_labels, pooled_accuracies, report, warnings
from rerank_plugin.base.errors import InputError
from tests.evaluation.runs import by_chance, ranked

# Pairs right of m: q1 all three; q2 x over z, not over y. Of n: q1 none; q2 both.
JUDGMENTS = {"q1": {"a": 2, "b": 1, "c": 0}, "q2": {"x": 1, "y": 0, "z": -2}, "q3": {"only": 1}, "q4": {}}
RUNS = {
    "m": {"q1": ranked("a", "unjudged", "b", "c"), "q2": ranked("y", "x", "z"), "q3": ranked("only")},
    "n": {"q1": ranked("c", "b", "a"), "q2": ranked("x", "y", "z"), "q3": ranked("only"), "q9": ranked("a")},
}
#             volume  m                         n
#   2 vs 1    1 of 5  1                         0
#   2 vs 0    1 of 5  1                         0
#   1 vs 0    3 of 5  (1 + 1/2) / 2, pooled 2/3 (0 + 1) / 2, pooled 2/3
#   weighted          .2 + .2 + .6 * .75 = .85  .6 * .5 = .3;   pooled 4/5 and 2/5
#   binary    4 of 5  (1 + 1/2) / 2, pooled 3/4 (0 + 1) / 2, pooled 2/4
NAMES = {2: "HRel", 1: "Rel", 0: "NRel"}


def test_table_3_and_the_numbers_of_figure_4():
    assert report(document_pairs(JUDGMENTS, RUNS, labels=NAMES), {}).text("markdown") == (
        "| labels | volume | queries | m | n |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        "| HRel vs Rel | 20.0% | 1 | 100.0% | 0.0% |\n"
        "| HRel vs NRel | 20.0% | 1 | 100.0% | 0.0% |\n"
        "| Rel vs NRel | 60.0% | 2 | 75.0% | 50.0% |\n"
        "| weighted average |  |  | 85.0% | 30.0% |\n"
        "| relevant vs not relevant | 80.0% | 2 | 75.0% | 50.0% |\n"
        "\n"
        "Share of document pairs in the right order, mean over the queries with such pairs.\n"
        "\n"
        "| labels | pairs | m | n |\n"
        "| --- | ---: | ---: | ---: |\n"
        "| HRel vs Rel | 1 | 100.0% | 0.0% |\n"
        "| HRel vs NRel | 1 | 100.0% | 0.0% |\n"
        "| Rel vs NRel | 3 | 66.7% | 66.7% |\n"
        "| all | 5 | 80.0% | 40.0% |\n"
        "| relevant vs not relevant | 4 | 75.0% | 50.0% |\n"
        "\n"
        "The same share over the pairs of all queries.\n"
    )
    bars = pooled_accuracies(document_pairs(JUDGMENTS, RUNS, labels=NAMES))
    assert bars["HRel vs Rel"] == {"m": 1, "n": 0} and bars["Rel vs NRel"] == {"m": 2 / 3, "n": 2 / 3}


def test_the_averages_of_the_paper():
    """The last row of its table 3 is what volumes of pairs give for PACRR-firstk and DRMM."""
    from experiments.document_pairs import Combination, DocumentPairs

    volumes = [3, 11, 36, 84, 231, 635]
    of_runs = {"firstk": [45.8, 56.0, 76.1, 57.3, 76.7, 73.0], "drmm": [48.2, 57.0, 71.5, 55.8, 70.1, 65.9]}
    combinations = [
        Combination("a", "b", np.array([volume]), {run: np.array([volume * of[at]]) for run, of in of_runs.items()})
        for at, volume in enumerate(volumes)
    ]
    found = DocumentPairs(list(of_runs), combinations, None, 300, 1, 1, {})
    assert [round(found.weighted_accuracy(run), 1) for run in of_runs] == [72.4, 66.1]


def test_letters_are_over_the_queries_of_a_combination():
    judgments = {f"q{number}": {"a": 1, "b": 0} for number in range(4)} | {"other": {"a": 1}}
    right = {query: ranked("a", "b") for query in judgments}
    wrong = {query: ranked("b", "a") for query in judgments}
    runs = {"right": right, "some": {**wrong, "q0": right["q0"]}, "wrong": wrong}
    found = document_pairs(judgments, runs)
    # right - some 0 1 1 1: mean .75, s .5, t 3, p .0577; some - wrong 1 0 0 0: t 1
    lines = report(found, {"some": "S", "wrong": "W"}).text("table").splitlines()
    assert lines[1].split() == ["1", "vs", "0", "100.0%", "4", "100.0%", "(sW)", "25.0%", "0.0%"]
    assert "from S some, W wrong (two-tailed paired t-test over these queries" in lines[5]


def test_only_documents_in_all_runs_are_compared():
    runs = {"m": {**RUNS["m"], "q1": ranked("a", "c")}, "n": {"q1": RUNS["n"]["q1"], "q3": ranked("only")}}
    found = document_pairs(JUDGMENTS, runs)
    assert [(each.name, each.pairs.tolist()) for each in found.combinations] == [("2 vs 0", [1])]
    assert (found.documents, found.compared, found.lacking) == (7, 3, {"m": 1, "n": 3})
    assert list(warnings(found)) == [
        "3 of 7 documents are in all runs; the pairs are of these",
        "m: lacks 1 of 7 documents",
        "n: lacks 3 of 7 documents",
    ]


def test_unjudged_documents_as_not_relevant():
    judgments = {"q": {"a": 1, "lost": 1}}
    runs = {"m": {"q": ranked("a", "b", "c")}, "n": {"q": ranked("b", "a", "d")}}
    message = r"different labels \(1\) that all runs hold; .* count unjudged ones as not relevant"
    with pytest.raises(InputError, match=message):
        document_pairs(judgments, runs)
    found = document_pairs(judgments, runs, unjudged_as_nonrelevant=True)
    assert [(each.name, each.pairs.tolist()) for each in found.combinations] == [("1 vs 0", [1])]
    assert [found.combinations[0].accuracy(run) for run in "mn"] == [1, 0]
    assert (found.documents, found.compared, found.lacking) == (5, 2, {"m": 2, "n": 2})  # a b c d lost; a b


def test_labels_merge_neighbouring_grades():
    judgments = {"q": {"a": 4, "b": 3, "c": 2, "d": 1, "e": 0.5, "f": -2}}
    runs = {"m": {"q": ranked(*"abcdef")}}
    found = document_pairs(judgments, runs, labels={4: "Nav", 3: "HRel", 2: "HRel", 0.0: "NRel", 0.5: "NRel"})
    names = ["Nav vs HRel", "Nav vs 1", "Nav vs NRel", "HRel vs 1", "HRel vs NRel", "1 vs NRel"]
    assert [each.name for each in found.combinations] == names
    assert [int(each.pairs.sum()) for each in found.combinations] == [2, 1, 2, 2, 4, 2]
    assert found.binary.pairs.tolist() == [4 * 2]  # label 0 is not relevant
    with pytest.raises(InputError, match="the grades of the label Rel are not neighbours"):
        document_pairs(judgments, runs, labels={4: "Rel", 2: "Rel"})


def test_many_grades():
    judgments = {"q": {str(grade): grade for grade in range(21)}}
    runs = {"m": {"q": ranked(*judgments["q"])}}
    with pytest.raises(InputError, match="the judgments have 21 grades: give at most 20 labels"):
        document_pairs(judgments, runs)
    found = document_pairs(judgments, runs, labels={0: "low", 1: "low"})
    assert len(found.combinations) == 190 and found.pooled("m") == 0
    large = document_pairs({"q": {"a": 1234567, "b": 1234568}}, {"m": {"q": ranked("b", "a")}})
    assert [each.name for each in large.combinations] == ["1234568 vs 1234567"]


def test_labels_on_the_command_line():
    assert parse_labels(["2=HRel", "0.5=a=b", "0=NRel"]) == {2: "HRel", 0.5: "a=b", 0: "NRel"}
    for bad in (["2"], ["2="], ["=x"], ["x=y"], ["-1=Junk"], ["nan=x"], ["1=a", "1.0=b"]):
        with pytest.raises(InputError, match=f"the label {bad[-1]}: expected a grade"):
            parse_labels(bad)


def test_runs_of_other_queries():
    with pytest.raises(InputError, match="m: none of its 1 queries is judged"):
        document_pairs(JUDGMENTS, {"m": {"q9": ranked("a")}})
    with pytest.raises(InputError, match="there are no judgments"):
        document_pairs({"q": {}}, RUNS)


def plainly(judgments, runs, unjudged):
    """{(grade, lower grade, query): [pairs, right by the first run, right by the second ...]}, pair by pair."""
    counts = {}
    for query, judged in judgments.items():
        orders = [run[query].doc_ids for run in runs.values()]
        common = [document for document in orders[0] if all(document in order for order in orders)]
        for first in common:
            for second in common:
                if not unjudged and not (first in judged and second in judged):
                    continue
                high, low = (max(judged.get(document, 0), 0) for document in (first, second))
                if high > low:
                    count = counts.setdefault((high, low, query), [0] * (1 + len(orders)))
                    count[0] += 1
                    for at, order in enumerate(orders, 1):
                        count[at] += order.index(first) < order.index(second)
    return counts


@pytest.mark.parametrize("unjudged", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_equal_to_counting_pair_by_pair(seed, unjudged):
    chance = random.Random(seed)
    queries = [f"q{number}" for number in range(6)]
    judgments, found = by_chance(queries, seed, highest=3)
    judgments["q5"] = dict.fromkeys(judgments["q5"], 1)  # a query without some combinations
    runs = {}
    for name in "mno":
        kept = {query: chance.sample(ranking.doc_ids, 20) for query, ranking in found.items()}
        runs[name] = {query: ranked(*ids) for query, ids in kept.items()}
    expected = plainly(judgments, runs, unjudged)
    result = document_pairs(judgments, runs, unjudged)
    assert {(float(each.higher), float(each.lower)) for each in result.combinations} == {key[:2] for key in expected}
    for each in result.combinations:
        counts = [expected.get((float(each.higher), float(each.lower), query)) for query in queries]
        counts = np.array([count for count in counts if count])  # [Q, 1 + runs]
        assert each.pairs.tolist() == counts[:, 0].tolist()
        for at, run in enumerate(runs, 1):
            assert each.right[run].tolist() == counts[:, at].tolist()
            assert each.accuracy(run) == pytest.approx(float(np.mean(counts[:, at] / counts[:, 0])))
    binary = [[count for key, count in expected.items() if key[1] == 0 and key[2] == query] for query in queries]
    binary = np.array([np.sum(counts, axis=0) for counts in binary if counts])
    assert result.binary.pairs.tolist() == binary[:, 0].tolist()
    assert result.binary.right["n"].tolist() == binary[:, 2].tolist()


def test_json():
    result = json.loads(report(document_pairs(JUDGMENTS, RUNS), {"m": "M"}).text("json"))
    assert result["documents"] == {"all": 7, "compared": 7, "lacking": {"m": 0, "n": 0}} and result["queries"] == 3
    assert result["combinations"][2] == {
        "higher": "1",
        "lower": "0",
        "pairs": 3,
        "volume": pytest.approx(0.6),
        "queries": 2,
        "runs": {
            "m": {"accuracy": 0.75, "pooled": pytest.approx(2 / 3), "letters": ""},
            "n": {"accuracy": 0.5, "pooled": pytest.approx(2 / 3), "letters": ""},
        },
    }
    assert result["weighted_average"] == pytest.approx({"m": 0.85, "n": 0.3})
    assert result["pooled"] == pytest.approx({"m": 0.8, "n": 0.4}) and result["binary"]["pairs"] == 4
    assert list(warnings(document_pairs(JUDGMENTS, RUNS))) == []
    without_zero = document_pairs({"q": {"a": 2, "b": 1}}, {"m": {"q": ranked("a", "b")}})
    assert json.loads(report(without_zero, {}).text("json"))["binary"] is None
