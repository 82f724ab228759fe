"""Cross-encoders: BERT and BioBERT as [K] 4.3 compares with, over any Hugging Face encoder folder on disk.

An encoder (Devlin, Chang, Lee, Toutanova: BERT, NAACL 2019; Lee et al.: BioBERT, Bioinformatics 2020) reads the query
and the document as one sequence of word pieces,

    [CLS] query [SEP] title abstract [SEP]

and a linear layer makes one score of what the last layer says at [CLS]. 'When training, we fine tune the last layer of
the model' ([K] 4.3): the embeddings and the layers before it stay as they were pre-trained.

A folder whose architecture is a ...ForSequenceClassification with one label, or two, has such a head already and keeps
it: a cross-encoder of sentence-transformers ranks without training, and can be trained on. Of two labels the second's
logit is the score, as in monoBERT (Nogueira and Cho, arXiv 2019).

In shapes N and M are pieces of words, L the pieces of a sequence and H the width of the encoder.

Where the paper is silent, or we depart from it:

* What is between encoder and score, and the loss: [K] names neither for BERT. Ours: dropout and a linear layer over the
  last hidden state at [CLS], without BERT's pooler, which was trained to tell sentences that follow each other; pairs
  with a hinge, as [K] trains its own model (equation 2).
* The frozen part runs without dropout: what it gives is the same in every epoch.
* What is cut to the encoder's longest sequence is the document; a query has half of it at most.
* Texts are the index's words, so without case and punctuation (:mod:`rerank_plugin.inputs.word_pieces`). That is
  near to what an uncased encoder reads. One that tells cases apart (BioBERT, RoBERTa) takes all words as lower-case
  ones, which is said in the log.
"""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

from rerank_plugin.base.errors import InputError
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.inputs.word_pieces import PieceBuilder, plain_tokenizer, template
from rerank_plugin.models import encoder_folder
from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.ranking_model import RankingModel
from rerank_plugin.text.vocabulary import Vocabulary

log = logging.getLogger(__name__)

ENCODER = "encoder"  # folder in a checkpoint, with the architecture and the tokenizer
HEAD_DEVIATION = 0.02  # of the new layer's weights before training, as of all weights of BERT
BEHIND_LAYERS = ("pooler", "final_norm", "ln_f")  # modules of an encoder that read what its last layer gives


@dataclass(frozen=True)
class CrossEncoderConfig(ModelConfig):
    """Hyper-parameters.

    Attributes:
        encoder: folder of the pre-trained encoder. A checkpoint has a copy of its architecture and its tokenizer, and
            does not need it any more.
        trainable_layers: how many of the last layers are trained beside the score's layer; 1 is the paper's, None
            trains everything, embeddings included.
        dropout: before the new linear layer.
        document_words, query_words: N and M, where longer texts are cut, counted in word pieces.
    """

    encoder: str = ""
    trainable_layers: int | None = 1
    dropout: float = 0.1
    document_words: int = 512
    query_words: int = 64
    lexical_features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.encoder:
            raise InputError("a cross-encoder needs a pre-trained encoder: set encoder to its folder")
        self.check("a cross-encoder")
        if self.trainable_layers is not None and self.trainable_layers < 0:
            raise InputError(f"trainable_layers {self.trainable_layers} is below 0; null stands for all")


class CrossEncoder(RankingModel[CrossEncoderConfig]):
    """A cross-encoder as a module; ``forward`` takes :class:`Inputs` of word pieces and returns scores [B].

    Args:
        config: the hyper-parameters.
        checkpoint: whose architecture is taken, without weights; by default those of ``config.encoder`` are read.

    Raises:
        InputError: the encoder cannot be read, or does not fit.
    """

    name = "bert"
    any_width, by_length = True, True
    has_word_vectors = False  # and no vocabulary of ours
    most_on_cpu = 32  # documents at once: more are not faster, and take gigabytes

    def __init__(self, config: CrossEncoderConfig, checkpoint: Path | None = None):
        super().__init__()
        folder = Path(config.encoder) if checkpoint is None else Path(checkpoint) / ENCODER
        self.config, self.folder = config, folder
        self.encoder_config = encoder_folder.read_encoder_config(folder)
        self.own_head = encoder_folder.has_own_head(self.encoder_config)
        self.tokenizer = encoder_folder.read_tokenizer(folder)
        self.pieces = plain_tokenizer(self.tokenizer.backend_tokenizer)
        self.template = template(self.pieces, str(folder))
        if checkpoint is None:
            self.encoder = encoder_folder.read_encoder(folder, self.encoder_config, self.own_head)
        else:
            self.encoder = encoder_folder.empty_encoder(self.encoder_config, self.own_head)
        if not self.own_head:
            self.dropout = nn.Dropout(config.dropout)
            self.head = nn.Linear(self.encoder_config.hidden_size, 1)
            nn.init.normal_(self.head.weight, std=HEAD_DEVIATION)
            nn.init.zeros_(self.head.bias)
        types, read = "token_type_ids", inspect.signature(self.encoder.forward).parameters
        self.has_types = types in read and types in self.tokenizer.model_input_names
        self.padding = self.tokenizer.pad_token_id or 0
        self.longest = self._longest()
        self.trained = self._freeze()

    def _longest(self) -> int:
        """Pieces of a sequence, at most.

        RoBERTa's positions begin behind the number of its padding piece, so it has less of them than it says.
        """
        limits = [self.tokenizer.model_max_length, self.encoder_config.max_position_embeddings]
        for name, module in self.encoder.named_modules():
            if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
                limits.append(module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1))
        longest = int(min(limits))
        if (longest - self.template.specials) // 2 < 1:
            raise InputError(f"the encoder {self.folder} reads {longest} pieces: that is no place for two texts")
        return longest

    def _freeze(self) -> list[nn.Module] | None:
        """Freeze all but the last layers and those after them; return the trained modules, None if all are."""
        if self.config.trainable_layers is None:
            return None
        base = self.encoder.base_model
        lists = (module for module in base.modules() if isinstance(module, nn.ModuleList))
        layers = next((one for one in lists if len(one) == self.encoder_config.num_hidden_layers), None)
        count = self.config.trainable_layers
        if layers is None or count > len(layers):
            known = "that cannot be told apart" if layers is None else f"{len(layers)} of them"
            raise InputError(f"trainable_layers {count}: the encoder {self.folder} has layers, {known}")
        base.requires_grad_(False)
        trained = [*layers[len(layers) - count :]]
        trained += [module for name in BEHIND_LAYERS if isinstance(module := getattr(base, name, None), nn.Module)]
        for module in trained:
            module.requires_grad_(True)
        return trained

    def train(self, mode: bool = True) -> CrossEncoder:
        """As any module; the frozen part stays without dropout."""
        super().train(mode)
        if mode and self.trained is not None:
            self.encoder.base_model.eval()
            for module in self.trained:
                module.train()
        return self

    def input_builder(self, index: ForwardIndex, vocabulary: Vocabulary) -> PieceBuilder:
        """The builder that turns queries and candidates of an index into word pieces; it needs no vocabulary.

        Raises:
            InputError: the index holds stems, or the tokenizer cannot read its words.
        """
        if self.pieces.encode("Aspirin").ids != self.pieces.encode("aspirin").ids:
            _say_cased(str(self.config.encoder))
        room = self.longest - self.template.specials
        queries = min(self.config.query_words, room // 2)
        documents = min(self.config.document_words, room)
        return PieceBuilder(index, self.pieces, documents, queries, self.tokenizer.unk_token_id)

    @classmethod
    def from_folder(cls, folder: Path) -> CrossEncoder:
        """A ready cross-encoder that was trained elsewhere.

        Raises:
            InputError: the folder cannot be used, or its encoder was never trained to give scores.
        """
        if not encoder_folder.has_own_head(encoder_folder.read_encoder_config(folder)):
            raise InputError(
                f"the encoder {folder} was not trained to give scores: train it first (rerank-plugin train "
                f"--model {cls.name} --set encoder={folder}), or give a cross-encoder (...ForSequenceClassification "
                f"with one label or two); if it encodes texts, index --encode {folder} and give it as encoder:{folder}"
            )
        return cls(CrossEncoderConfig(encoder=str(folder)))

    def write_files(self, folder: Path) -> None:
        """Write what a checkpoint needs beside the weights: the architecture and the tokenizer."""
        self.encoder_config.save_pretrained(folder / ENCODER)
        self.tokenizer.save_pretrained(folder / ENCODER)

    def sequences(self, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
        """Query and document as one sequence each, padded behind: the document is cut to the encoder's length.

        Returns pieces, mask and token types, int64 [B, L] each.
        """
        batch, form = len(inputs.documents), self.template
        room = self.longest - form.specials - inputs.query_mask.sum(dim=1, keepdim=True)  # [B, 1]
        places = torch.arange(inputs.documents.shape[1], device=inputs.documents.device)  # [N]
        document_mask = inputs.document_mask & (places < room)  # [B, N]; documents have no gaps
        segments = [
            (self._fixed(form.before, inputs), None),
            (inputs.queries, inputs.query_mask),
            (self._fixed(form.between, inputs), None),
            (inputs.documents, document_mask),
            (self._fixed(form.after, inputs), None),
        ]
        ids = torch.cat([segment for segment, _ in segments], dim=1)  # [B, all segments with their padding]
        alive = torch.cat([torch.ones_like(s, dtype=torch.bool) if m is None else m for s, m in segments], dim=1)
        types = torch.cat([torch.full_like(s, kind) for (s, _), kind in zip(segments, form.types)], dim=1)
        lengths = alive.sum(dim=1)  # [B]
        # A stable sort moves the padding of all segments to the end and leaves the order of the rest.
        order = torch.argsort((~alive).to(torch.uint8), dim=1, stable=True)[:, : int(lengths.max()) if batch else 0]
        mask = torch.arange(order.shape[1], device=ids.device) < lengths[:, None]  # [B, L]
        ids = ids.gather(1, order).masked_fill(~mask, self.padding)
        return ids, mask.to(torch.int64), types.gather(1, order).masked_fill(~mask, 0)

    def _fixed(self, pieces: tuple[int, ...], inputs: Inputs) -> Tensor:
        """The same special pieces for every sequence, int64 [B, s]."""
        return torch.tensor(pieces, dtype=torch.int64, device=inputs.documents.device).expand(len(inputs.documents), -1)

    def forward(self, inputs: Inputs) -> Tensor:
        ids, mask, types = self.sequences(inputs)  # [B, L]
        given = {"input_ids": ids, "attention_mask": mask, **({"token_type_ids": types} if self.has_types else {})}
        read = self.encoder(**given)
        if self.own_head:
            return read.logits[:, -1]  # [B]
        return self.head(self.dropout(read.last_hidden_state[:, 0]))[:, 0]  # [B, H] to [B]


class BioBert(CrossEncoder):
    """A :class:`CrossEncoder` named as in [K]'s tables; only the encoder folder differs."""

    name = "biobert"


@cache
def _say_cased(folder: str) -> None:
    log.warning("the encoder %s tells upper from lower case; an index holds words in lower case only", folder)
