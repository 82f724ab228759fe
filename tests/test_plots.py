"""Pictures: what is named on them stays on them."""

import pytest

from rerank_plugin.files.plots import legend_below, panels


@pytest.mark.parametrize(("length", "columns"), [(5, 4), (40, 2), (80, 1)])
def test_a_legend_has_as_many_columns_as_fit(tmp_path, length, columns):
    with panels(tmp_path / "picture.png", 1, 1) as ((axes,),):
        for number in range(5):
            axes.plot([0, 1], label=str(number) * length)
        legend_below(axes.figure)
        (legend,) = axes.figure.legends
        extent = legend.get_window_extent(axes.figure.canvas.get_renderer())
        assert legend._ncols == columns and extent.width <= axes.figure.bbox.width
