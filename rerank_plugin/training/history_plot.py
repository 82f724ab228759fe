"""The plot of a training: loss and validation measures by epoch."""

from __future__ import annotations

from pathlib import Path

from rerank_plugin.files.plots import legend_below, panels

NOT_MEASURES = ("epoch", "loss", "deciding", "training_seconds", "validation_seconds")


def plot_history(history: list[dict], path: Path) -> None:
    """Plot the history as a PNG."""
    with panels(path, 1, 1, height=4.5, overwrite=True) as axes:
        draw_history(axes[0][0], history)
        legend_below(axes[0][0].figure)


def draw_history(losses, history: list[dict]) -> None:
    """Plot the loss on the axes ``losses``, and the measures on a second scale, without a legend."""
    epochs = [entry["epoch"] for entry in history]
    losses.plot(epochs, [entry["loss"] for entry in history], color="tab:gray", label="training loss")
    losses.set(xlabel="epoch", ylabel="loss")
    losses.xaxis.get_major_locator().set_params(integer=True)
    measures = losses.twinx()
    for name in history[0]:
        if name not in NOT_MEASURES:
            measures.plot(epochs, [entry[name] for entry in history], marker="o", label=name)
    measures.set_ylabel("validation measure")
