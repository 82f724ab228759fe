"""Makes a bundled model of a trained checkpoint: it refers to the words of another bundled model.

    python -m experiments.bundle checkpoints/open --words rerank_plugin/models/ktrel/bundled \\
        --output rerank_plugin/models/delta/bundled --overwrite
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from pathlib import Path

import rerank_plugin as rp
from rerank_plugin.files.checksums import SEAL
from rerank_plugin.files.outputs import replacing_folder
from rerank_plugin.indexes.statistics import STATISTICS_FILE
from rerank_plugin.models.checkpoints import CONFIG_FILE, WEIGHTS_FILE
from rerank_plugin.options import run
from rerank_plugin.text import word_vectors
from rerank_plugin.training.saving import TRAINED


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.bundle", description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--words", type=Path, required=True, help="folder with the same word vectors")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--overwrite", action="store_true")
    options = parser.parse_args(argv)
    checksum, referred = (
        word_vectors.checksum(word_vectors.load(path)) for path in (options.checkpoint, options.words)
    )
    if checksum != referred:
        raise rp.InputError(f"{options.checkpoint} was trained on other word vectors than those in {options.words}")
    settings, config = (_unsealed(options.checkpoint / name) for name in (word_vectors.SETTINGS_FILE, CONFIG_FILE))
    settings |= {word_vectors.REFERENCE: os.path.relpath(options.words, options.output), "checksum": checksum}
    with replacing_folder(options.output, TRAINED, options.overwrite) as writing:
        for name in (WEIGHTS_FILE, STATISTICS_FILE):
            shutil.copy(options.checkpoint / name, writing / name)
        (writing / word_vectors.SETTINGS_FILE).write_text(json.dumps(settings, indent=1), encoding="utf-8")
        text = json.dumps(config, indent=1, ensure_ascii=False)
        (writing / CONFIG_FILE).write_text(text, encoding="utf-8")


def _unsealed(path: Path) -> dict:
    """A description without checksums, which are of the files before; pip compares those of its own."""
    described = json.loads(path.read_text(encoding="utf-8"))
    return {name: value for name, value in described.items() if name not in (SEAL, "files")}


if __name__ == "__main__":
    run(main)
