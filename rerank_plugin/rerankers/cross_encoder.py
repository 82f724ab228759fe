"""Cross-encoders as rerankers: from a trained checkpoint, or from an encoder folder that gives scores as it is."""

from __future__ import annotations

from pathlib import Path

from rerank_plugin.files.errors import InputError
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.models.checkpoints import read_config
from rerank_plugin.models.cross_encoder import encoder_folder
from rerank_plugin.models.cross_encoder.model import BioBert, CrossEncoder, CrossEncoderConfig
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker, from_checkpoint
from rerank_plugin.text.vocabulary import Vocabulary


def bert(index: ForwardIndex, folder: Path | None, options: RerankerOptions):
    """The factory of ``bert:FOLDER``; see :func:`_open`."""
    return _open(CrossEncoder, index, folder, options)


def biobert(index: ForwardIndex, folder: Path | None, options: RerankerOptions):
    """The factory of ``biobert:FOLDER``; see :func:`_open`."""
    return _open(BioBert, index, folder, options)


def _open(model_class, index: ForwardIndex, folder: Path | None, options: RerankerOptions):
    """A trained checkpoint, or an encoder folder that can give scores as it is.

    Raises:
        InputError: no folder was given, it cannot be used, or its encoder was never trained to give scores.
    """
    name = model_class.name
    if folder is None:
        raise InputError(
            f"'{name}' needs a folder: a trained checkpoint, or a cross-encoder's from Hugging Face, as {name}:FOLDER"
        )
    if not encoder_folder.is_encoder_folder(folder):
        found = read_config(folder)["model"]
        if found != name:
            raise InputError(f"{folder} holds the model '{found}', not '{name}'")
        return from_checkpoint(index, folder, options)
    if not encoder_folder.has_own_head(encoder_folder.read_encoder_config(folder)):
        raise InputError(
            f"the encoder {folder} was not trained to give scores: train it first (python -m rerank_plugin.train --model {name} "
            f"--set encoder={folder}), or give a cross-encoder (...ForSequenceClassification with one label)"
        )
    model = model_class(CrossEncoderConfig(encoder=str(folder)))
    return NeuralReranker(model, Vocabulary([], index.tokenizer.settings), index, options)
