"""Comparison of a run with a baseline: the paired t-test of [D18], tables 2 to 5, and the agreement of rankings."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.extras import naming_extras
from rerank_plugin.files.runs import RankedList

TOP = 10
HIGHER, LOWER, EQUIVALENT = "+", "-", "="  # the superscripts of [D18], table 2


class Comparison(NamedTuple):
    """One measure of one run against the baseline."""

    difference: float  # mean over the queries of the run's value minus the baseline's
    t: float  # test statistic; infinite if every query differs by the same amount
    p: float  # two-tailed, after correction

    def mark(self, alpha: float) -> str:
        if self.p >= alpha:
            return EQUIVALENT
        return HIGHER if self.difference > 0 else LOWER


def paired_t_test(values: np.ndarray, baseline: np.ndarray) -> Comparison:
    """Two-tailed paired t-test of the values of the same queries, each [Q]; p is not corrected.

    t is 0 and p is 1 if no query differs or there are fewer than two queries, where the formula divides by zero.
    """
    with naming_extras("a t-test"):
        from scipy.stats import ttest_rel

    differences = np.asarray(values, np.float64) - np.asarray(baseline, np.float64)  # [Q]
    difference = float(differences.mean()) if len(differences) else 0.0
    if len(differences) < 2 or not differences.any():
        return Comparison(difference, 0.0, 1.0)
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # about equal differences: t is huge or infinite
        t, p = ttest_rel(values, baseline)
    if math.isnan(t):
        return Comparison(difference, math.copysign(math.inf, difference), 0.0)
    return Comparison(difference, float(t), float(p))


def compare(values: Mapping[str, Mapping[str, np.ndarray]], baseline: str) -> dict[str, dict[str, Comparison]]:
    """Every other run against the baseline, by run and measure.

    Bonferroni: each p is multiplied by the number of runs compared with the baseline, so that the chance of any false
    mark on a measure stays below alpha.
    """
    others = [run for run in values if run != baseline]
    result: dict[str, dict[str, Comparison]] = {}
    for run in others:
        result[run] = {}
        for measure, of_queries in values[run].items():
            raw = paired_t_test(of_queries, values[baseline][measure])
            result[run][measure] = raw._replace(p=min(1.0, raw.p * len(others)))
    return result


class Agreement(NamedTuple):
    """Agreement of two runs, without judgments: means over their queries with at least two common documents."""

    queries: int  # the number of these queries
    tau: float  # Kendall's tau over the common documents, from -1 (reversed) to 1 (same order); NaN without queries
    top: float  # share of the top :data:`TOP` documents that are in the top of the other run, too


def agreement(run: Mapping[str, RankedList], other: Mapping[str, RankedList]) -> Agreement:
    """The agreement of ``run`` and ``other``."""
    with naming_extras("Kendall's tau"):
        from scipy.stats import kendalltau

    taus, tops = [], []
    for query in [query for query in run if query in other]:
        places = {document: place for place, document in enumerate(other[query].doc_ids)}
        common = [places[document] for document in run[query].doc_ids if document in places]
        if len(common) < 2:
            continue
        taus.append(kendalltau(np.arange(len(common)), common).statistic)
        top, other_top = set(run[query].doc_ids[:TOP]), set(other[query].doc_ids[:TOP])
        tops.append(len(top & other_top) / max(len(top), len(other_top)))
    if not taus:
        return Agreement(0, math.nan, math.nan)
    return Agreement(len(taus), float(np.mean(taus)), float(np.mean(tops)))
