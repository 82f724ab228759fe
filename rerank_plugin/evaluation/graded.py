"""Graded measures: exponential NDCG and ERR, which ir-measures leaves to a script, and linear nDCG for any grades.

The script (gdeval.pl) takes only numeric query ids and grades up to 4; with others it fails or silently gives another
mean. Both measures are computed here from their definitions, for any ids and grades. Linear nDCG (gain rel) is that of
trec_eval, which takes whole grades only.

NDCG and ERR have gain 2^rel - 1. The relevance levels of the click logs ([D18] 4.1) reach 100 and more, where 2^rel
outgrows exact numbers and then floats. Both measures are ratios, so gains are divided by 2^highest beforehand, which is
exact in floating point and cannot overflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np


def scaled_gains(grades: Iterable[float], highest: float) -> np.ndarray:
    """(2^rel - 1) / 2^highest, float64 [n]; 0 for grades of 0 and below."""
    levels = np.maximum(np.fromiter(grades, np.float64), 0.0)
    return np.exp2(levels - highest) - np.exp2(-float(highest))


def ndcg(ranked: Sequence[float], judged: Iterable[float], cutoff: int | None = None, linear: bool = False) -> float:
    """NDCG(n) = DCG(n) / IDCG(n) with DCG(n) = sum over ranks i <= n of (2^rel(i) - 1) / log2(i + 1): [D18] 4.4.1.

    Args:
        ranked: the grades of the ranked documents from rank 1 on, 0 where not judged.
        judged: the grades of all judged documents of the query, for the ideal ranking.
        cutoff: n; None for the whole ranking.
        linear: whether the gain is the grade itself, 0 if negative (Järvelin and Kekäläinen, TOIS 2002).

    Returns:
        0 for a query without relevant documents.
    """
    ideal = sorted(judged, reverse=True)[:cutoff]
    if not ideal or ideal[0] <= 0:
        return 0.0
    gains, ideal_gains = (
        np.maximum(np.array(grades, np.float64), 0.0) if linear else scaled_gains(grades, ideal[0])
        for grades in (ranked[:cutoff], ideal)
    )
    return _discounted(gains) / _discounted(ideal_gains)


def _discounted(gains: np.ndarray) -> float:
    return float((gains / np.log2(np.arange(2, len(gains) + 2))).sum())


def err(ranked: Sequence[float], highest: float, cutoff: int | None = None) -> float:
    """Expected reciprocal rank (Chapelle et al., CIKM 2009, equation 4).

    ERR(n) = sum over ranks r <= n of 1/r * R(r) * product over i < r of (1 - R(i)); the user stops at a document with
    probability R = (2^rel - 1) / 2^highest.

    Args:
        ranked: the grades of the ranked documents from rank 1 on, 0 where not judged.
        highest: the highest grade of the scale.
    """
    stops = scaled_gains(ranked[:cutoff], highest)  # [n]
    arrives = np.concatenate([[1.0], np.cumprod(1.0 - stops)[:-1]])[: len(stops)]
    return float((stops * arrives / np.arange(1, len(stops) + 1)).sum())
