"""The training recipe of PACRR and its baselines ([P] 2.2 and 3.1), also used for KNRM and Conv-KNRM.

Pairs by groups of documents, mini-batches of 32, and a fixed number of epochs; the epoch with the best ERR@20 is kept.
The paper's 'stochastic gradient descent' names no variant; the authors' program uses Adam.
"""

from typing import Any

from rerank_plugin.models.base import Recipe
from rerank_plugin.models.register import ModelEntry

RECIPE = Recipe(
    {"weights": "none", "sampling": "groups", "batch_size": 32, "optimizer": "adam", "patience": 30},
    measures=("ERR@20", "nDCG@20"),
    summary="hinge loss without weights, pairs by groups, batches of 32, Adam, 30 epochs, best epoch by ERR@20",
)


def entry(file: str, name: str, module: str, summary: str, **more: Any) -> ModelEntry:
    """The entry of a model with this recipe; its module has a function ``explain``.

    Args:
        file: the module of the model, by its name for imports.
        module: the name of the model's class; its configuration is the class ``{module}Config``.
        more: other fields of the entry.
    """
    fields: dict[str, Any] = {"explain": f"{file}:explain", "recipe": RECIPE, "bench": {}, **more}
    return ModelEntry(
        name=name,
        config=f"{file}:{module}Config",
        module=f"{file}:{module}",
        summary=summary,
        **fields,
    )
