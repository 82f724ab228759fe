"""``python -m experiments.large_distribution``: a distribution of PubMed's form of any size, as of `sample --pubmed`.

The files are written by several processes, each whole or not at all, and those that are there stay: a run that was
killed goes on with the next file. Update files have as many records as is asked for, half of them new, where those of
the sample are a fiftieth of the baseline.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from rerank_plugin import InputError
from rerank_plugin import options as commandline
from rerank_plugin.kernels.parallel import processors
from rerank_plugin.sample.generator import SEED
from rerank_plugin.sample.pubmed import Distribution, DistributionWriter

README = "README.txt"


def check_plan(folder: Path, plan: Distribution) -> None:
    """Record the plan of a folder; an `InputError` if it has another one."""
    said = f"{plan}\n"
    (folder / "baseline").mkdir(parents=True, exist_ok=True)
    (folder / "updatefiles").mkdir(exist_ok=True)
    if not (folder / README).exists():
        (folder / README).write_text(said, "utf-8")
    if (folder / README).read_text("utf-8") != said:
        raise InputError(f"{folder} was begun with another plan ({folder / README}): choose another folder")


def write_file(folder: Path, plan: Distribution, number: int) -> None:
    """Write a file of the baseline."""
    DistributionWriter(folder, plan).baseline_file(number)


def write_updates(folder: Path, plan: Distribution) -> None:
    """Write the update files."""
    DistributionWriter(folder, plan).updates()


def main(argv: list[str] | None = None) -> None:
    parser = commandline.parser("large_distribution", __doc__.split("\n\n", 1)[1])
    parser.prog = "python -m experiments.large_distribution"
    parser.set_defaults(seed=SEED)
    add = parser.add_argument
    add("--documents", type=int, required=True, help="citations of the baseline")
    add("--per-file", type=int, default=30_000, help="records of a file of the baseline")
    add("--updates", type=int, default=0, help="update files")
    add("--per-update", type=int, default=30_000, help="records of an update file")
    add("--output", type=Path, required=True, help="folder to write, or to complete")
    add("--processes", type=int, default=processors(), help="processes (default: one per core)")
    options = commandline.parse(parser, argv)
    parser.check_counts(options, "documents", "per_file", "per_update", "processes")
    sizes = options.documents, options.updates, options.per_file
    plan = Distribution(*sizes, damaged=False, seed=options.seed, per_update=options.per_update)
    check_plan(options.output, plan)
    with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
        numbers = range(1, DistributionWriter(options.output, plan).files + 1)
        written = pool.map(partial(write_file, options.output, plan), numbers)
        updates = pool.submit(write_updates, options.output, plan)
        for _ in commandline.progress(written, "writing", "files", total=len(numbers)):
            pass
        updates.result()
    print(f"{options.output}: {len(numbers) + plan.updates:,} files")


if __name__ == "__main__":
    commandline.run(main)
