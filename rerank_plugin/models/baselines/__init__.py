"""The baselines of the papers: a model a file, most of them scored on the fast path of interaction models.

They use only what a plug-in of another package can use.
"""

from rerank_plugin.models.base import Recipe
from rerank_plugin.models.recipes import entry
from rerank_plugin.models.register import ModelEntry, register

register(
    entry(
        f"{__name__}.conv_knrm",
        "conv-knrm",
        "ConvKnrm",
        "Conv-KNRM (Dai et al. 2018): kernels over the similarities of n-grams",
        fast=f"{__name__}.conv_knrm_fast:FastConvKnrm",
    )
)
register(
    ModelEntry(
        name="delta-classifier",
        config=f"{__name__}.delta_classifier:DeltaClassifierConfig",
        module=f"{__name__}.delta_classifier:DeltaClassifier",
        summary="the classifier with the Delta stage ([D17])",
        explain=f"{__name__}.delta_classifier:explain",
        recipe=Recipe(  # [D17] 4.6 and 4.7; the weighted variant has the weights ``log``
            {"loss": "bce", "weights": "none", "optimizer": "adadelta", "epochs": 10},
            summary="binary cross-entropy without weights, Adadelta, 10 epochs, best epoch by nDCG@20",
        ),
        bench={},
    )
)
register(
    entry(f"{__name__}.drmm", "drmm", "Drmm", "DRMM (Guo et al. 2016): histograms of similarities, weighted by idf")
)
register(
    entry(f"{__name__}.duet", "duet", "Duet", "DUET (Mitra et al. 2017): exact matches and learned representations")
)
register(entry(f"{__name__}.knrm", "knrm", "Knrm", "KNRM (Xiong et al. 2017): kernels over the similarities of words"))
register(
    entry(
        f"{__name__}.matchpyramid",
        "matchpyramid",
        "MatchPyramid",
        "MatchPyramid (Pang et al. 2016): convolutions over the matrix of similarities",
        explain=None,
    )
)
register(
    ModelEntry(
        name="sevmos",
        config=f"{__name__}.sevmos:SevMosConfig",
        module=f"{__name__}.sevmos:SevMos",
        summary="the model of Severyn and Moschitti (2015): document vectors and a learned similarity",
        encoder=f"{__name__}.sevmos_scorer:SevMosScorer",
        explain=f"{__name__}.sevmos:explain",
        recipe=Recipe(  # [D18] 4.3.3, where these loss and weights were best; the optimizer is [D17] 4.7's
            {"loss": "bce", "weights": "sqrt", "optimizer": "adadelta"},
            summary="as a classifier with weights, Adadelta, the epoch with the best nDCG@20",
        ),
        bench={"convolutions": 3},  # SevMos-C3
    )
)
