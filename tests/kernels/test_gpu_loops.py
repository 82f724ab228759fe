"""The Triton kernels against the modules' own operations: on a GPU, or on a CPU with ``TRITON_INTERPRET=1``."""

import os

import pytest
import torch

from rerank_plugin.models import kernel_pooling
from rerank_plugin.models.pacrr.model import Pacrr, PacrrConfig
from tests.devices import DEVICE

triton = pytest.importorskip("triton", reason="PyTorch's builds for the CPU bring no Triton")
interpreted = os.environ.get("TRITON_INTERPRET") == "1"
if not (DEVICE.startswith("cuda") or interpreted):
    pytest.skip("needs a GPU, or TRITON_INTERPRET=1", allow_module_level=True)

from rerank_plugin.kernels import gpu_loops  # noqa: E402  # imports Triton


@pytest.mark.parametrize("distillation", ["firstk", "kwindow"])
@pytest.mark.parametrize(("filters", "longest_ngram", "columns"), [(5, 4, 1), (32, 3, 70), (17, 5, 129)])
def test_strongest_filter_device(distillation, filters, longest_ngram, columns):
    torch.manual_seed(1)
    model = Pacrr(PacrrConfig(distillation, filters=filters, longest_ngram=longest_ngram), torch.randn(7, 4)).eval()
    with torch.no_grad():
        for layer in model.convolutions:
            layer.bias.normal_()
        matrix = torch.randn(3, 6, max(columns, longest_ngram))
        for words, layer in enumerate(model.convolutions, 2):
            expected = model.convolve(words, matrix)
            arrays = (array.to(DEVICE) for array in (layer.weight, layer.bias, matrix))
            actual = gpu_loops.strongest_filter(*arrays, layer.stride[1], *model.borders(words)).cpu()
            assert actual.shape == expected.shape and torch.allclose(actual, expected, atol=1e-5)
        layer.weight[1, 0, 0, 0] = torch.nan
        arrays = (array.to(DEVICE) for array in (layer.weight, layer.bias, matrix))
        assert gpu_loops.strongest_filter(*arrays, layer.stride[1], *model.borders(words)).isnan().all()


@pytest.mark.parametrize("columns", [1, 64, 200])
def test_soft_counts_device(columns):
    torch.manual_seed(2)
    similarities = (2 * torch.rand(3, columns, 5) - 1).transpose(1, 2)
    similarities[0, 1, 0] = 1.0
    mask = torch.rand(3, columns) > 0.3
    expected = kernel_pooling.soft_counts(similarities, mask)
    means, deviations = (torch.tensor(values) for values in (kernel_pooling.MEANS, kernel_pooling.DEVIATIONS))
    arrays = (array.to(DEVICE) for array in (similarities, mask, means, -0.5 / deviations**2))
    actual = gpu_loops.soft_counts(*arrays, kernel_pooling.LEAST_EXPONENT).cpu()
    assert torch.allclose(actual, expected, rtol=1e-5, atol=1e-6)
