"""A batch that is trained on in pieces of similar lengths: the same scores and gradients as all at once."""

import pytest
import torch

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.models.pacrr.model import Pacrr, PacrrConfig
from rerank_plugin.models.ranking_model import RankingModel
from rerank_plugin.models.register import entry_of
from rerank_plugin.training.trainer import scored

WORDS, DOCUMENTS = 60, 48

SIZES = {"document_words": 40, "query_words": 8}
MODELS = {
    "pacrr firstk": ("pacrr", {"filters": 5, "longest_ngram": 4}),
    "pacrr kwindow": ("pacrr", {"distillation": "kwindow", "distilled_words": 9, "signals": 3}),
    "matchpyramid": ("matchpyramid", {}),
    "duet": ("duet", {"filters": 6, "hidden": (7,), "dropout": 0.0}),
    "knrm": ("knrm", {}),
    "conv-knrm": ("conv-knrm", {"filters": 6}),
    "knrm and its words": ("knrm", {"trained_words": True}),
    "conv-knrm and its words": ("conv-knrm", {"filters": 6, "trained_words": True}),
}


def vectors():
    return torch.randn(WORDS, 7, generator=torch.Generator().manual_seed(1)) * (torch.arange(WORDS) > 0)[:, None]


def build(name):
    torch.manual_seed(2)
    of, values = MODELS[name]
    entry = entry_of(of)
    return entry.load("module")(entry.load("config")(**SIZES, **values), vectors())


def batch(config, seed=0):
    """Texts of all lengths from none to the whole width, with words in common and unknown ones."""
    generator = torch.Generator().manual_seed(seed)
    n, m = config.document_words, config.query_words
    lengths = torch.randint(0, n + 1, (DOCUMENTS, 1), generator=generator)
    query_lengths = torch.randint(0, m + 1, (DOCUMENTS, 1), generator=generator)
    document_mask, query_mask = torch.arange(n) < lengths, torch.arange(m) < query_lengths
    documents = torch.randint(0, WORDS, (DOCUMENTS, n), generator=generator)
    queries = torch.randint(0, WORDS, (DOCUMENTS, m), generator=generator)
    return Inputs(
        documents * document_mask,
        document_mask,
        queries * query_mask,
        query_mask,
        torch.zeros(DOCUMENTS, 0),
        documents.masked_fill(~document_mask, -1),
        queries.masked_fill(~query_mask, -1),
        torch.rand(DOCUMENTS, m, generator=generator) * query_mask,
    )


def gradients(model, scores):
    """Scores, and the gradients of a sum that weighs each of them otherwise."""
    model.zero_grad()
    (scores * torch.linspace(-1, 2, DOCUMENTS)).sum().backward()
    return scores.detach(), {name: parameter.grad.to_dense().clone() for name, parameter in model.named_parameters()}


def check_training(model, inputs, trained, least=0):
    """That scores and gradients in training are those of the whole batch without it; returns the whole batch's.

    Gradients may differ by a share of the largest, or of ``least`` where that is larger.
    """
    expected, slopes = gradients(model.eval(), model(inputs))
    found, found_slopes = gradients(model, trained(model.train(), inputs))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    for parameter, slope in slopes.items():
        largest = max(float(slope.abs().max()), least)
        torch.testing.assert_close(found_slopes[parameter], slope, rtol=1e-4, atol=1e-5 * largest)
    return expected, slopes


@pytest.mark.parametrize("name", MODELS)
def test_pieces_train_as_the_whole_batch(name):
    model = build(name)
    assert model.by_length
    scores, slopes = check_training(model, batch(model.config), scored)
    assert len(set(scores.tolist())) > DOCUMENTS / 2  # scores that are all alike would prove nothing
    assert not [parameter for parameter, slope in slopes.items() if not slope.any()]  # that are not trained at all


@pytest.mark.parametrize("seed", range(12))
def test_strongest_matches_are_found_before_gradients(seed):
    """PACRR in training mode, with all sizes, against the convolution of every cell."""
    sizes = {
        "distillation": ("firstk", "kwindow")[seed % 2],
        "signals": 1 + seed % 4,
        "longest_ngram": 2 + seed % 3,
        "distilled_words": 4 + seed,
        "filters": 1 + seed,
    }
    torch.manual_seed(seed)
    model = Pacrr(PacrrConfig(document_words=20, query_words=5, **sizes), vectors())
    with torch.no_grad():
        for layer in model.convolutions:
            layer.bias.uniform_(-0.5, 0.5)  # so that some matches are cut off by the ReLU and others are not
    check_training(model, batch(model.config, seed), Pacrr.__call__, least=1)


def test_a_model_that_does_not_say_so_gets_the_batch_as_it_is():
    seen = []

    class Whole(RankingModel):
        config = PacrrConfig(document_words=20, query_words=5)

        def forward(self, inputs):
            seen.append(inputs)
            return torch.arange(DOCUMENTS)

    inputs = batch(Whole.config)
    assert scored(Whole(), inputs).tolist() == list(range(DOCUMENTS)) and seen == [inputs]


def test_common_padding_is_cut_to_one_word_at_least():
    inputs = batch(PacrrConfig(document_words=20, query_words=5))
    empty = inputs._replace(document_mask=inputs.document_mask & False, query_mask=inputs.query_mask & False)
    cut = empty.without_common_padding()
    assert cut.documents.shape == cut.document_terms.shape == (DOCUMENTS, 1)
    assert cut.queries.shape == cut.query_idf.shape == cut.query_terms.shape == (DOCUMENTS, 1)
    assert inputs._replace(query_idf=None).without_common_padding().query_idf is None
