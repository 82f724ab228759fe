"""Encoder folders in the format of Hugging Face transformers: their required files, and how they are read.

A folder holds ``config.json`` (the architecture), ``model.safetensors`` and the tokenizer's files. Nothing is
downloaded, no code of a folder is run, and weights come from safetensors only: a pickle can run any program.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rerank_plugin.base.errors import InputError, damage
from rerank_plugin.base.extras import require
from rerank_plugin.files.artifact import read_object
from rerank_plugin.files.downloads import check_downloaded

CONFIG_FILE, WEIGHTS = "config.json", ("model.safetensors", "model.safetensors.index.json")
OPTIONAL_TENSORS = ("pooler.", "position_ids")  # parts of an encoder that are not used, or not trained
OFFLINE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


def is_encoder_folder(folder: Path) -> bool:
    """Whether a folder holds a transformers model; the config of a checkpoint of this package names its ``model``."""
    try:
        config = read_object(Path(folder) / CONFIG_FILE, "")
    except InputError:
        return False
    return "model" not in config and {"model_type", "architectures"} & set(config) != set()


def read_encoder_config(folder: Path) -> Any:
    """The architecture of a folder, as transformers' configuration.

    Raises:
        InputError: it is missing, unknown to transformers, or not an encoder; or transformers is not installed.
    """
    require("transformers", f"the encoder {folder}")
    check_downloaded(Path(folder))
    path = Path(folder) / CONFIG_FILE
    if not path.is_file():
        raise InputError(f"{folder} is not an encoder folder: it holds no {CONFIG_FILE}")
    from transformers import AutoConfig

    with one_line_errors(f"cannot read {path}"):
        config = AutoConfig.from_pretrained(folder, **OFFLINE)
    if getattr(config, "is_encoder_decoder", False) or getattr(config, "is_decoder", False):
        raise InputError(f"{folder} holds a '{config.model_type}' that generates text; give the folder of an encoder")
    return config


def has_own_head(config: Any) -> bool:
    """Whether an architecture scores a pair of texts: with one label, or with two, the second one for relevant."""
    names = config.architectures or ()
    return any(name.endswith("ForSequenceClassification") for name in names) and config.num_labels in (1, 2)


def read_tokenizer(folder: Path) -> Any:
    """The fast tokenizer of a folder; an `InputError` if the folder has none, or not its files."""
    from transformers import AutoTokenizer

    with one_line_errors(f"cannot read the tokenizer of {folder}"):
        tokenizer = AutoTokenizer.from_pretrained(folder, **OFFLINE)
    if not tokenizer.is_fast:
        raise InputError(f"the tokenizer of {folder} has no fast form: the folder needs a tokenizer.json")
    return tokenizer


def check_word_pieces(tokenizer: Any, model: Any, folder: Path) -> None:
    """Check that a tokenizer fits a model: of a folder without its files, the libraries make one that knows no word.

    Args:
        model: a module with ``get_input_embeddings``; None for one without.

    Raises:
        InputError: the tokenizer has special pieces only, or more pieces than the model.
    """
    fast = getattr(tokenizer, "backend_tokenizer", tokenizer)
    special = {piece.content for piece in fast.get_added_tokens_decoder().values()}
    numbers = [number for piece, number in fast.get_vocab().items() if piece not in special]
    if not numbers:
        raise InputError(
            f"{folder} holds no files of a tokenizer: copy those of the model (tokenizer.json, or vocab.txt, or "
            "*.model) beside its weights"
        )
    if model is not None and max(numbers) >= (rows := model.get_input_embeddings().num_embeddings):
        raise InputError(f"the tokenizer of {folder} has {max(numbers) + 1} pieces, and the model {rows}: copy its own")


def empty_encoder(config: Any, own_head: bool) -> Any:
    """A module of an architecture, with random weights."""
    from transformers import AutoModel, AutoModelForSequenceClassification

    with one_line_errors("cannot build the encoder"):
        model = (AutoModelForSequenceClassification if own_head else AutoModel).from_config(config)
    return model if own_head else _without_pooler(model)


def read_encoder(folder: Path, config: Any, own_head: bool) -> Any:
    """A module with the folder's weights, as float32; an `InputError` if they are not safetensors, or lack tensors."""
    from transformers import AutoModel, AutoModelForSequenceClassification

    folder = Path(folder)
    if not any((folder / name).is_file() for name in WEIGHTS):
        raise InputError(f"{folder} holds no {WEIGHTS[0]}{_how_to_convert(folder, own_head)}")
    auto_class = AutoModelForSequenceClassification if own_head else AutoModel
    with one_line_errors(f"cannot read the weights of {folder}"):
        model, report = auto_class.from_pretrained(
            folder, config=config, use_safetensors=True, output_loading_info=True, **OFFLINE
        )
    optional = () if own_head else OPTIONAL_TENSORS
    missing = sorted(name for name in report["missing_keys"] if not any(part in name for part in optional))
    if missing:
        names = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise InputError(f"the weights of {folder} lack {len(missing)} tensors of its {CONFIG_FILE}: {names}")
    return model.float() if own_head else _without_pooler(model.float())


def _how_to_convert(folder: Path, own_head: bool) -> str:
    """The command that converts a folder's pickled weights, for an error message; empty if there are none."""
    pickles = sorted(path.name for path in folder.glob("*.bin"))
    if not pickles:
        return ""
    auto_class = "AutoModelForSequenceClassification" if own_head else "AutoModel"
    return (
        f" but {pickles[0]}, a pickle, which can run any program and is not read; if you trust it, convert it: "
        f'python -c "from transformers import AutoTokenizer as T, {auto_class} as M; '
        f"f, t = '{folder}', '{folder}-safe'; "
        f'M.from_pretrained(f).save_pretrained(t); T.from_pretrained(f).save_pretrained(t)"'
    )


def _without_pooler(model: Any) -> Any:
    """A bare encoder without the layer over [CLS], which was trained for another task."""
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model


@contextmanager
def one_line_errors(problem: str) -> Iterator[None]:
    """Silence the reports and progress bars of transformers, and raise its errors in one line after ``problem``."""
    from transformers.utils import logging as library_logging

    verbosity, progress_bars = library_logging.get_verbosity(), library_logging.is_progress_bar_enabled()
    library_logging.set_verbosity(logging.CRITICAL)
    library_logging.disable_progress_bar()
    try:
        yield
    except Exception as error:  # transformers raises many classes; only its own calls are wrapped
        lines, kind = str(error).strip().splitlines(), damage(error)
        if lines and "ignore_mismatched_sizes" in lines[0]:
            lines = [f"weights have other shapes than those of {CONFIG_FILE}: files of two models are mixed"]
        raise InputError(f"{problem}: {lines[0] if lines else kind}") from None
    finally:
        library_logging.set_verbosity(verbosity)
        if progress_bars:
            library_logging.enable_progress_bar()
