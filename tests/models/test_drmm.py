"""DRMM against scores computed by hand, and borders of bins. Tests of every model: ``tests/conformance``."""

import math

import numpy as np
import pytest
import torch

from rerank_plugin.base.records import Query
from rerank_plugin.models.baselines.drmm import Drmm, DrmmConfig, bins_of, precise_cosines
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors
from rerank_plugin.training.pairs import make_pools
from tests import small
from tests.conformance.models import Case, make, opened, scores_of
from tests.models import golden

# Query "a b", documents "a c c d" and an unknown word, and none; c = (3, 4), d = (-4, 3). IDFs are ln 2 and 0.
VECTORS = torch.tensor([[5.0, 5], [1, 0], [0, 1], [3, 4], [-4, 3]])  # UNK first, with a vector that must not count
INPUTS = golden.inputs(["accdx", ""], "ab", 6, 3, idf={"a": math.log(2)})


def test_golden_bins_of_words():
    """Five bins: [-1, -.5) [-.5, 0) [0, .5) [.5, 1) and the word itself.

    a: itself 1, c .6, d -.8, unknown 0. b: a 0, c .8, d .6, unknown 0.
    """
    bins = Drmm(DrmmConfig(bins=5), VECTORS).interaction(INPUTS)
    assert bins[0, :2, :5].tolist() == [[4, 3, 3, 0, 2], [2, 3, 3, 3, 2]]


def test_golden_score():
    """One hidden unit that reads the bins with weights 0, 0, 1, 2, 3 and bias -1; output weight 2, bias 0.5; gate 1.

    a: log10 of 2, 3 and 2 for bins 2, 3, 4: 0.30103 + 2 * 0.47712 + 3 * 0.30103 - 1 = 1.15836, tanh 0.82048;
       2 * 0.82048 + 0.5 = 2.14096, tanh 0.97275.
    b: log10 of 3 and 4: 0.47712 + 2 * 0.60206 - 1 = 0.68124, tanh 0.59237; 1.68474, tanh 0.93346.
    Shares: 2 to 1, of exp(ln 2) and exp(0). Score 2/3 * 0.97275 + 1/3 * 0.93346 = 0.95966.
    The empty document: tanh(-1) = -0.76159; 2 * -0.76159 + 0.5 = -1.02319, tanh -0.77116, for both words.
    A query without words scores nothing.
    """
    model = golden.set_weights(
        Drmm(DrmmConfig(bins=5, hidden=(1,)), VECTORS), layers__0__weight=[0, 0, 1, 2, 3], layers__0__bias=-1,
        layers__1__weight=2, layers__1__bias=0.5, gate=1,
    )  # fmt: skip
    assert model(INPUTS).tolist() == pytest.approx([0.95966, -0.77116], abs=2e-5)
    assert model(golden.inputs(["accdx", ""], "", 6, 3)).tolist() == [0, 0]


def test_golden_gates():
    """exp(2 ln 2) : exp(0) = 4 : 1; the weight of the padded position is 0, although its IDF is 0, too."""
    model = golden.set_weights(Drmm(DrmmConfig(), VECTORS), gate=2)
    assert model.gates(INPUTS)[0].tolist() == pytest.approx([0.8, 0.2, 0])


# ------------------------------------------------------------------------------------------------ borders of bins


@pytest.mark.parametrize(
    ("bins", "cosine", "expected"),
    [
        (30, -1.0, 0),
        (30, -1.0000002, 0),  # rounding may leave the interval
        (30, 0.0, 14),
        (30, 1.0, 28),  # not the same word
        (30, 1.0000002, 28),
        (30, 2 * 7 / 29 - 1 + 1e-5, 7),
        (30, 2 * 7 / 29 - 1 - 1e-5, 6),
        (31, 0.0, 15),
        (31, -4e-7, 15),  # as good as 0
        (31, -6e-7, 14),
        (2, -1.0, 0),
        (2, 1.0, 0),
    ],
)
def test_golden_bins(bins, cosine, expected):
    assert bins_of(torch.tensor([cosine], dtype=torch.float64), bins).tolist() == [expected]


@pytest.mark.parametrize("bins", [3, 5, 6, 11, 21, 26, 41, 51, 101])
def test_borders_belong_to_the_bin_above_whatever_rounding_does(bins):
    """Borders that are multiples of 1e-6, and cosines off by the rounding errors of single and double precision."""
    borders = torch.linspace(-1, 1, bins, dtype=torch.float64)[:-1]
    for error in (-1e-7, -1e-15, 0, 1e-15, 1e-7):
        assert bins_of(borders + error, bins).tolist() == list(range(bins - 1))


def test_different_words_with_one_vector_are_no_exact_match():
    """Different words with cosine 1 are in the last bin but one. The same unknown word is an exact match."""
    vectors = torch.tensor([[1.0, 2], [0.1, 0.7], [0.1, 0.7], [0.3, 2.1]])
    bins = Drmm(DrmmConfig(bins=30), vectors).interaction(golden.inputs(["abcxyz"], "ay"))
    assert bins[0].tolist() == [[29, 28, 28, 14, 14, 14], [14, 14, 14, 14, 29, 14]]


def test_cosines_do_not_depend_on_the_length_of_vectors():
    """Also for numbers whose squares overflow or underflow in single precision."""
    expected = precise_cosines(VECTORS, INPUTS)
    for factor in (1e-30, 1e30):
        torch.testing.assert_close(precise_cosines(VECTORS * factor, INPUTS), expected, rtol=1e-6, atol=0)


def near_borders(random, count, bins):
    """Vectors in a plane whose cosines with the first vector are close to borders of bins, up to tiny distances."""
    borders = np.linspace(-1, 1, bins)[random.integers(bins, size=count)]
    cosines = np.clip(borders + random.normal(size=count) * 10.0 ** random.integers(-9, -2, count), -1, 1)
    vectors = np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1) * random.uniform(0.5, 2, (count, 1))
    vectors[0] = [1.7, 0]
    return vectors.astype(np.float32)


@pytest.mark.parametrize("bins", [5, 30, 31, 2001])
@pytest.mark.parametrize("kind", ["grid", "plane"])
def test_both_paths_put_words_near_borders_into_the_same_bins(tmp_path, bins, kind):
    """One-word documents and a one-word query: the score identifies the bin."""
    random = np.random.default_rng(bins)
    known = [f"w{number}" for number in range(600)]
    matrix = {
        "grid": lambda: random.integers(-3, 4, (601, 3)).astype(np.float32),  # many cosines lie on borders of bins
        "plane": lambda: np.concatenate([np.ones((1, 2)), near_borders(random, 600, bins)]).astype(np.float32),
    }[kind]()
    vectors = WordVectors(Vocabulary(known), matrix)
    index = small.build_index(tmp_path / "forward", [(f"d{word}", word, "") for word in known])
    model = golden.set_weights(
        Drmm(DrmmConfig(bins=bins, hidden=(), document_words=3, query_words=1), torch.from_numpy(matrix)),
        layers__0__weight=np.linspace(-4, 4, bins), layers__0__bias=0,
    )  # fmt: skip
    fast, module = (scores_of(opened(model, path, index, vectors), Query("q", "w0")) for path in ("fast", "module"))
    assert len(np.unique(module)) > min(bins, 20) // 2
    np.testing.assert_allclose(fast, module, rtol=0, atol=1e-6)


@pytest.mark.parametrize("path", ["module", "fast"])
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("risk of a stroke in women and the heart", "risk stroke women heart"),
        ("the quokka is with xylitol", "quokka xylitol"),
        ("not of this", "not of this"),  # there is nothing else to go by
        ("heart attack", "heart attack"),
        ("of the risk of the failure of the heart", "risk failure heart"),  # cut afterwards
    ],
)
def test_stop_words_are_taken_out_of_queries(index, vectors, path, text, kept):
    """The scores are those of the query without them; without the setting they count."""
    removing, keeping = (
        opened(make(Case("drmm", {}), vectors, query_words=4, **more), path, index, vectors)
        for more in ({"query_stopwords": "remove"}, {})
    )
    actual = scores_of(removing, Query("q", text))
    assert actual.tolist() == scores_of(keeping, Query("q", kept)).tolist()
    if text != kept:
        assert np.abs(actual - scores_of(keeping, Query("q", text))).max() > 1e-4
    words = removing.builder.query(index.query(text))
    assert words.cut == 0 and words.mask.sum() == len(kept.split())


def test_training_reads_queries_without_stop_words(index, vectors):
    builder = make(Case("drmm", {"query_stopwords": "remove"}), vectors).input_builder(index, vectors.vocabulary)
    candidates = {"q": small.candidates(index)}
    pools = make_pools([Query("q", "the risk of stroke")], {"q": {"9": 1, "10": 0}}, candidates, builder)
    assert len(pools) == 1 and pools[0].words.mask.sum() == 2
    assert pools[0].words.terms[:2].tolist() == index.terms.find(["risk", "stroke"]).tolist()
