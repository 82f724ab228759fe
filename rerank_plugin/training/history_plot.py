"""The picture of a training: loss and validation measures by epoch."""

from __future__ import annotations

from pathlib import Path

from rerank_plugin.files.outputs import PICTURE_METADATA

NOT_MEASURES = ("epoch", "loss", "deciding", "training_seconds", "validation_seconds")


def plot_history(history: list[dict], path: Path) -> None:
    """Draw the history as a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    draw_history(figure.add_subplot(), history)
    figure.savefig(path, format="png", dpi=120, metadata=PICTURE_METADATA)


def draw_history(losses, history: list[dict]) -> None:
    """Draw the loss on the axes ``losses``, and the measures on a second scale."""
    epochs = [entry["epoch"] for entry in history]
    losses.plot(epochs, [entry["loss"] for entry in history], color="tab:gray", label="training loss")
    losses.set(xlabel="epoch", ylabel="loss")
    losses.xaxis.get_major_locator().set_params(integer=True)
    measures = losses.twinx()
    for name in history[0]:
        if name not in NOT_MEASURES:
            measures.plot(epochs, [entry[name] for entry in history], marker="o", label=name)
    measures.set_ylabel("validation measure")
    lines = [*losses.get_lines(), *measures.get_lines()]
    losses.legend(lines, [line.get_label() for line in lines], loc="center right")
