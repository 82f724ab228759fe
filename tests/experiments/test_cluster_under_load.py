"""A cluster under load: which answers count as refused, and which as wrong."""

from experiments.cluster_under_load import counts
from experiments.updates_under_load import Answer, Period


def test_only_an_answer_that_names_why_it_lacks_a_ranking_is_refused():
    right, before = [("d1", 2.0), ("d2", 1.0)], [("d1", 1.5)]
    results = [{("delta", "q"): before}, {("delta", "q"): right}]
    periods = [Period("reload", 4, 5), Period("service killed and started again", 10, 20)]
    named = "503: shard 1 of 4 did not answer within 10 s, so the ranking would lack documents: try again"
    answers = [
        Answer("delta", "q", 1, 2, before), Answer("delta", "q", 4.5, 6, before), Answer("delta", "q", 6, 7, right),
        Answer("delta", "q", 6, 7, None, named), Answer("delta", "q", 12, 12, None, "connection refused"),
        Answer("delta", "q", 6, 7, before), Answer("delta", "q", 6, 7, right[:1]), Answer("delta", "q", 1, 2, right),
        Answer("delta", "q", 6, 7, None, "500: the service failed"),
        Answer("delta", "q", 6, 7, None, "connection refused"),
    ]  # fmt: skip
    counted = counts(answers, periods, results)
    assert {kind: counted[kind] for kind in ("sent", "right", "refused", "no service", "wrong")} == {
        "sent": 10, "right": 3, "refused": 1, "no service": 1, "wrong": 5,
    }  # fmt: skip
    assert counted["said"]["refused"] == [(named, 1)] and len(counted["said"]["wrong"]) == 5
