"""Makes a bundled model of a trained checkpoint: it refers to the words of another bundled model.

    python -m experiments.bundle checkpoints/open --words rerank_plugin/models/ktrel/bundled \\
        --set query_words=64 query_stopwords=function --output rerank_plugin/models/delta/bundled --overwrite

``--set`` changes how the model reads queries and documents; its weights stay as they were trained.
"""

from __future__ import annotations

import argparse
import os
import shutil
from dataclasses import asdict
from pathlib import Path

import rerank_plugin as rp
from rerank_plugin.files.outputs import replacing_folder
from rerank_plugin.indexes.collection_statistics import STATISTICS_FILE
from rerank_plugin.models.checkpoint import CHECKPOINT, WEIGHTS_FILE, Checkpoint, build_config
from rerank_plugin.options import named_values, run
from rerank_plugin.text import word_vectors
from rerank_plugin.training.saving import TRAINED


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.bundle", description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--words", type=Path, required=True, help="folder with the same word vectors")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", help="hyper-parameters to change")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--overwrite", action="store_true")
    options = parser.parse_args(argv)
    checksum, referred = (
        word_vectors.checksum(word_vectors.load(path)) for path in (options.checkpoint, options.words)
    )
    if checksum != referred:
        raise rp.InputError(f"{options.checkpoint} was trained on other word vectors than those in {options.words}")
    settings = word_vectors.WORD_VECTORS.read(options.checkpoint)
    settings |= {word_vectors.REFERENCE: os.path.relpath(options.words, options.output), "checksum": checksum}
    checkpoint = Checkpoint.open(options.checkpoint)
    values = checkpoint.description["config"] | named_values(options.set)
    changed = build_config(type(checkpoint.config), values, str(options.checkpoint))
    config = checkpoint.description | {"config": asdict(changed)}
    with replacing_folder(options.output, TRAINED, options.overwrite) as writing:
        for name in (WEIGHTS_FILE, STATISTICS_FILE):
            shutil.copy(options.checkpoint / name, writing / name)
        word_vectors.WORD_VECTORS.seal(writing, settings)
        CHECKPOINT.seal(writing, config)


if __name__ == "__main__":
    run(main)
