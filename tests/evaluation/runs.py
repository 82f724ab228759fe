"""Judgments and runs for the tests, made by chance from a seed."""

import random

import numpy as np

from rerank_plugin.evaluation.values import Evaluator
from rerank_plugin.files.runs import RankedList

# Every kind of measure that can be computed here, from each provider, with and without cutoffs.
EVERY_MEASURE = [
    "nDCG@10", "nDCG@20", "nDCG", "NDCG.20", "NDCG.3", "nDCG(dcg='exp-log2')", "nDCG(gains={1:5,2:6})@10",
    "AP", "MAP", "AP@10", "AP(rel=2)", "P@5", "Prec.5", "P(rel=2)@10", "P(judged_only=True)@5",
    "R@5", "R@500", "R(rel=2)@10",
    "RR", "RR@10", "RR(rel=2)@10", "ERR", "ERR@5", "ERR@20", "Rprec", "Bpref", "infAP", "IPrec@0.5", "Success@1",
    "SetP", "SetR", "SetF", "SetAP", "Judged@5", "Compat", "NumRet", "NumRel", "NumRet(rel=1)",
]  # fmt: skip


def mean_measures(run, judgments, measures):
    """Means over all judged queries, by measure name."""
    evaluator = Evaluator(judgments, measures)
    return evaluator.summary(evaluator.values(run))


def ranked(*doc_ids):
    """A ranking in this order."""
    return RankedList(list(doc_ids), np.arange(len(doc_ids), 0, -1, dtype=np.float32))


def by_chance(queries, seed=0, documents=40, highest=4):
    """Judgments with some negative grades, and a run with many ties."""
    chance = random.Random(seed)
    judgments, run = {}, {}
    for query in queries:
        pool = [f"d{number}" for number in range(documents)]
        judgments[query] = {document: chance.randint(-1, highest) for document in chance.sample(pool, documents // 2)}
        judgments[query][pool[0]] = highest
        found = chance.sample(pool, documents * 3 // 4)
        run[query] = RankedList(found, np.array([chance.randint(0, 6) for _ in found], np.float32))
    return judgments, run
