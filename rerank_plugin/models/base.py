"""What every model is run with, and how one is trained."""

from __future__ import annotations

from dataclasses import dataclass, field

from rerank_plugin.files.errors import InputError

PRECISIONS = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class RerankerOptions:
    """How a reranker runs.

    Attributes:
        device: torch device.
        batch_size: candidates that are scored at once.
        fast: the fused path where a model has one for the device; off, the module itself scores (for comparing).
        threads: of the fast paths; by default ``OMP_NUM_THREADS``, or the processors there are.
        precision: ``float32``, ``bfloat16`` or ``float16``. The last two are for GPUs: the module scores under torch's
            autocast, and scores change in the third digit.
        compile: let torch compile the module, with CUDA graphs on a GPU: pays where many single queries come one by
            one, after the minute that compiling takes.
    """

    device: str = "cpu"
    batch_size: int = 1024
    fast: bool = True
    threads: int | None = None
    precision: str = "float32"
    compile: bool = False

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise InputError(f"the batch size {self.batch_size} must be at least 1")
        if self.threads is not None and self.threads < 1:
            raise InputError(f"the number of threads {self.threads} must be at least 1")
        if self.precision not in PRECISIONS:
            raise InputError(f"unknown precision '{self.precision}'; known: {', '.join(PRECISIONS)}")


@dataclass(frozen=True)
class Recipe:
    """How a model's paper trained it, where not as Delta of [D18].

    Attributes:
        training: fields of the training configuration.
        measures: validation measures, of which the first decides.
        documents: which documents training pairs are drawn from, ``candidates`` or ``collection``.
    """

    training: dict = field(default_factory=dict)
    measures: tuple[str, ...] = ("nDCG@20", "AP")
    documents: str = "candidates"
