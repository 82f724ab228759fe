"""Folders with an encoder as Hugging Face's transformers keep them: what they must hold, and how they are read.

A folder holds ``config.json`` (the architecture), ``model.safetensors`` and the tokenizer's files. Nothing is fetched,
no code of a folder is run, and weights come from safetensors only: a pickle can run whatever it likes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import require

CONFIG_FILE, WEIGHTS = "config.json", ("model.safetensors", "model.safetensors.index.json")
MAY_MISS = ("pooler.", "position_ids")  # parts of an encoder that are not used, or not learned
OFFLINE = {"local_files_only": True, "trust_remote_code": False}


def is_encoder_folder(folder: Path) -> bool:
    """Whether a folder is a transformers model and not a checkpoint of this package, which names its ``model``."""
    try:
        config = json.loads((Path(folder) / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "model" not in config and {"model_type", "architectures"} & set(config) != set()


def read_encoder_config(folder: Path):
    """The architecture of a folder, as transformers' configuration.

    Raises:
        InputError: there is none, it is unknown to transformers, or it is no encoder; or transformers is missing.
    """
    require("transformers", f"the encoder {folder}")
    path = Path(folder) / CONFIG_FILE
    if not path.is_file():
        raise InputError(f"{folder} is no encoder folder: it holds no {CONFIG_FILE}")
    from transformers import AutoConfig

    with one_line_errors(f"cannot read {path}"):
        config = AutoConfig.from_pretrained(folder, **OFFLINE)
    if getattr(config, "is_encoder_decoder", False) or getattr(config, "is_decoder", False):
        raise InputError(f"{folder} holds a '{config.model_type}' that writes text; a cross-encoder needs an encoder")
    return config


def has_own_head(config) -> bool:
    """Whether an architecture scores two texts: by one label, or by two, of which the second stands for relevant."""
    names = config.architectures or ()
    return any(name.endswith("ForSequenceClassification") for name in names) and config.num_labels in (1, 2)


def read_tokenizer(folder: Path):
    """The tokenizer of a folder, one of the fast kind; an `InputError` if there is none, or it is of the slow kind."""
    from transformers import AutoTokenizer

    with one_line_errors(f"cannot read the tokenizer of {folder}"):
        tokenizer = AutoTokenizer.from_pretrained(folder, **OFFLINE)
    if not tokenizer.is_fast:
        raise InputError(f"the tokenizer of {folder} has no fast form (tokenizer.json), which is needed")
    return tokenizer


def empty_encoder(config, own_head: bool):
    """A module of an architecture with weights at random."""
    from transformers import AutoModel, AutoModelForSequenceClassification

    with one_line_errors("cannot build the encoder"):
        model = (AutoModelForSequenceClassification if own_head else AutoModel).from_config(config)
    return model if own_head else _without_pooler(model)


def read_encoder(folder: Path, config, own_head: bool):
    """The same with the folder's weights, as float32; an `InputError` if they are no safetensors, or lack a part."""
    from transformers import AutoModel, AutoModelForSequenceClassification

    folder = Path(folder)
    if not any((folder / name).is_file() for name in WEIGHTS):
        raise InputError(f"{folder} holds no {WEIGHTS[0]}{_how_to_convert(folder, own_head)}")
    kind = AutoModelForSequenceClassification if own_head else AutoModel
    with one_line_errors(f"cannot read the weights of {folder}"):
        model, found = kind.from_pretrained(
            folder, config=config, use_safetensors=True, output_loading_info=True, **OFFLINE
        )
    allowed = () if own_head else MAY_MISS
    missing = sorted(name for name in found["missing_keys"] if not any(part in name for part in allowed))
    if missing:
        some = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise InputError(f"the weights of {folder} lack {len(missing)} tensors of its {CONFIG_FILE}: {some}")
    return model.float() if own_head else _without_pooler(model.float())


def _how_to_convert(folder: Path, own_head: bool) -> str:
    """What to do about a folder whose weights are of another kind."""
    pickles = sorted(path.name for path in folder.glob("*.bin"))
    if not pickles:
        return ""
    kind = "AutoModelForSequenceClassification" if own_head else "AutoModel"
    return (
        f" but {pickles[0]}, a pickle, which can run any program and is not read here; if you trust it, convert it: "
        f"python -c \"from transformers import AutoTokenizer as T, {kind} as M; f, t = '{folder}', '{folder}-safe'; "
        f'M.from_pretrained(f).save_pretrained(t); T.from_pretrained(f).save_pretrained(t)"'
    )


def _without_pooler(model):
    """A bare encoder without the layer behind [CLS] that was trained for another task."""
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model


@contextmanager
def one_line_errors(what: str) -> Iterator[None]:
    """Silence the library's reports and progress bars, and give its errors in one line."""
    from transformers.utils import logging as theirs

    verbosity, bars = theirs.get_verbosity(), theirs.is_progress_bar_enabled()
    theirs.set_verbosity(logging.CRITICAL)
    theirs.disable_progress_bar()
    try:
        yield
    except Exception as error:  # of many classes; only the library's own calls stand within
        said = str(error).strip().splitlines()
        raise InputError(f"{what}: {said[0] if said else repr(error)}") from None
    finally:
        theirs.set_verbosity(verbosity)
        if bars:
            theirs.enable_progress_bar()
