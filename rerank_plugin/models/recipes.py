"""How [P] 2.2 and 3.1 trained PACRR and its baselines; KNRM and Conv-KNRM, which are not among them, go with them.

By groups of documents, in mini-batches of 32, a given number of epochs, of which the one with the best ERR@20 is kept.
'Stochastic gradient descent' names no variant; the authors' program took Adam.
"""

from typing import Any

from rerank_plugin.models.base import Recipe
from rerank_plugin.models.register import ModelEntry

RECIPE = Recipe(
    {"weights": "none", "sampling": "groups", "batch_size": 32, "optimizer": "adam", "patience": 30},
    measures=("ERR@20", "nDCG@20"),
    summary="hinge loss without weights, pairs by groups, batches of 32, Adam, 30 epochs, the one with the best ERR@20",
)


def entry(folder: str, name: str, module: str, summary: str, **more: Any) -> ModelEntry:
    """The entry of one of these models: its folder, a package, has the modules ``model`` and ``explain``.

    Args:
        module: the name of its class, after which its configuration is called.
        more: other fields of the entry.
    """
    fields: dict[str, Any] = {"explain": f"{folder}.explain:explain", "recipe": RECIPE, "bench": {}, **more}
    return ModelEntry(
        name=name,
        config=f"{folder}.model:{module}Config",
        module=f"{folder}.model:{module}",
        summary=summary,
        **fields,
    )
