"""Cross-encoders: the baselines BERT and BioBERT of [K] 4.3, over any Hugging Face encoder folder on disk.

An encoder (Devlin, Chang, Lee, Toutanova: BERT, NAACL 2019; Lee et al.: BioBERT, Bioinformatics 2020) reads the query
and the document as one sequence of word pieces,

    [CLS] query [SEP] title abstract [SEP]

and a linear layer computes the score from the last hidden state at [CLS]. 'When training, we fine tune the last layer
of the model' ([K] 4.3): the embeddings and the layers before it keep their pre-trained weights.

A folder whose architecture is a ...ForSequenceClassification with one label, or two, has a head already and keeps it: a
cross-encoder of sentence-transformers ranks without training, and can be fine-tuned. With two labels the score is the
second logit, as in monoBERT (Nogueira and Cho, arXiv 2019).

In shapes N and M are word pieces, L the pieces of a sequence and H the width of the encoder.

Where the paper is silent, or this model deviates:

* The head and the loss: [K] names neither for BERT. Here dropout and a linear layer over the last hidden state at
  [CLS], without BERT's pooler, which was trained for next sentence prediction; hinge loss over pairs, as for [K]'s own
  model (equation 2).
* The frozen part runs without dropout, so its output is the same in every epoch.
* The document is cut to the encoder's longest sequence; a query has at most half of it.
* Texts are the index's words, so without case and punctuation (:mod:`rerank_plugin.inputs.word_pieces`). This is close
  to the input of an uncased encoder. A cased encoder (BioBERT, RoBERTa) reads all words in lower case, which the log
  reports.
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
from rerank_plugin.models import transformers_folder
from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.ranking_model import RankingModel
from rerank_plugin.text.vocabulary import Vocabulary

log = logging.getLogger(__name__)

ENCODER = "encoder"  # folder in a checkpoint, with the architecture and the tokenizer
HEAD_DEVIATION = 0.02  # of the head's initial weights, as for all weights of BERT
BEHIND_LAYERS = ("pooler", "final_norm", "ln_f")  # modules of an encoder that read the output of its last layer


@dataclass(frozen=True)
class CrossEncoderConfig(ModelConfig):
    """Hyper-parameters.

    Attributes:
        encoder: folder of the pre-trained encoder; not needed by a checkpoint, which has a copy of its architecture and
            its tokenizer.
        trainable_layers: number of last layers trained with the head; the paper trains 1, None trains everything,
            embeddings included.
        dropout: dropout before the head.
        document_words, query_words: N and M, the longest texts in word pieces; longer ones are cut.
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
            raise InputError(f"trainable_layers {self.trainable_layers} is below 0; use null for all layers")


class Head(nn.Linear):
    """A linear layer of single precision under autocast, too: scores of 8 bits would tie with many others."""

    def forward(self, input: Tensor) -> Tensor:
        with torch.autocast(input.device.type, enabled=False):
            return super().forward(input.to(self.weight.dtype))


class CrossEncoder(RankingModel[CrossEncoderConfig]):
    """A cross-encoder as a module; ``forward`` takes :class:`Inputs` of word pieces and returns scores [B].

    Args:
        config: the hyper-parameters.
        checkpoint: folder of a checkpoint whose architecture is used, without weights; by default architecture and
            weights are read from ``config.encoder``.

    Raises:
        InputError: the encoder cannot be read, or its sequences or layers do not suit the configuration.
    """

    name = "bert"
    any_width, by_length = True, True
    has_word_vectors = False  # and no vocabulary of words
    most_on_cpu = 32  # documents at once: larger batches are not faster, and take gigabytes

    def __init__(self, config: CrossEncoderConfig, checkpoint: Path | None = None):
        super().__init__()
        folder = Path(config.encoder) if checkpoint is None else Path(checkpoint) / ENCODER
        self.config, self.folder = config, folder
        self.encoder_config = transformers_folder.read_encoder_config(folder)
        self.own_head = transformers_folder.has_own_head(self.encoder_config)
        self.tokenizer = transformers_folder.read_tokenizer(folder)
        self.pieces = plain_tokenizer(self.tokenizer.backend_tokenizer)
        self.template = template(self.pieces, str(folder))
        if checkpoint is None:
            self.encoder = transformers_folder.read_encoder(folder, self.encoder_config, self.own_head)
        else:
            self.encoder = transformers_folder.empty_encoder(self.encoder_config, self.own_head)
        transformers_folder.check_word_pieces(self.tokenizer, self.encoder, folder)
        if self.own_head:
            for module in self.encoder.modules():
                if type(module) is nn.Linear and module.out_features == self.encoder_config.num_labels:
                    module.__class__ = Head  # the same weights and names
        else:
            self.dropout = nn.Dropout(config.dropout)
            self.head = Head(self.encoder_config.hidden_size, 1)
            nn.init.normal_(self.head.weight, std=HEAD_DEVIATION)
            nn.init.zeros_(self.head.bias)
        types, read = "token_type_ids", inspect.signature(self.encoder.forward).parameters
        self.has_types = types in read and types in self.tokenizer.model_input_names
        self.padding = self.tokenizer.pad_token_id or 0
        self.longest = self._longest()
        self.trained = self._freeze()

    def _longest(self) -> int:
        """The largest number of pieces in a sequence.

        RoBERTa's positions begin after the id of its padding piece, so it has fewer positions than its configuration
        says.
        """
        limits = [self.tokenizer.model_max_length, self.encoder_config.max_position_embeddings]
        for name, module in self.encoder.named_modules():
            if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
                limits.append(module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1))
        longest = int(min(limits))
        if (longest - self.template.specials) // 2 < 1:
            raise InputError(f"the encoder {self.folder} reads {longest} pieces: too few for a query and a document")
        return longest

    def _freeze(self) -> list[nn.Module] | None:
        """Freeze all but the last layers and the modules behind them; return the trained modules, None for all."""
        if self.config.trainable_layers is None:
            return None
        base = self.encoder.base_model
        lists = (module for module in base.modules() if isinstance(module, nn.ModuleList))
        layers = next((modules for modules in lists if len(modules) == self.encoder_config.num_hidden_layers), None)
        count = self.config.trainable_layers
        if layers is None:
            raise InputError(f"trainable_layers {count}: the layers of the encoder {self.folder} are unknown; use null")
        if count > len(layers):
            raise InputError(f"trainable_layers {count}: the encoder {self.folder} has only {len(layers)} layers")
        base.requires_grad_(False)
        trained = [*layers[len(layers) - count :]]
        trained += [module for name in BEHIND_LAYERS if isinstance(module := getattr(base, name, None), nn.Module)]
        for module in trained:
            module.requires_grad_(True)
        return trained

    def train(self, mode: bool = True) -> CrossEncoder:
        """Set the mode like any module; the frozen part stays in eval mode, without dropout."""
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
            _warn_cased(str(self.config.encoder))
        room = self.longest - self.template.specials
        queries = min(self.config.query_words, room // 2)
        documents = min(self.config.document_words, room)
        return PieceBuilder(index, self.pieces, documents, queries, self.tokenizer.unk_token_id)

    @classmethod
    def from_folder(cls, folder: Path) -> CrossEncoder:
        """A trained cross-encoder of sentence-transformers or transformers.

        Raises:
            InputError: the folder cannot be read, or its encoder has no head that scores.
        """
        if not transformers_folder.has_own_head(transformers_folder.read_encoder_config(folder)):
            raise InputError(
                f"the encoder {folder} was not trained to score: train it first (rerank-plugin train "
                f"--model {cls.name} --set encoder={folder}), or give a cross-encoder (...ForSequenceClassification "
                f"with one label or two); if it encodes texts, index --encode {folder} and give it as encoder:{folder}"
            )
        return cls(CrossEncoderConfig(encoder=str(folder)))

    def write_files(self, folder: Path) -> None:
        """Write the other files of a checkpoint: the architecture and the tokenizer."""
        self.encoder_config.save_pretrained(folder / ENCODER)
        self.tokenizer.save_pretrained(folder / ENCODER)

    def sequences(self, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
        """Query and document as one sequence, padded behind; the document is cut to the encoder's longest sequence.

        Returns pieces, mask and token types, int64 [B, L] each.
        """
        batch, form = len(inputs.documents), self.template
        room = self.longest - form.specials - inputs.query_mask.sum(dim=1, keepdim=True)  # [B, 1]
        positions = torch.arange(inputs.documents.shape[1], device=inputs.documents.device)  # [N]
        document_mask = inputs.document_mask & (positions < room)  # [B, N]; documents have no gaps
        segments = [
            (self._special(form.before, inputs), None),
            (inputs.queries, inputs.query_mask),
            (self._special(form.between, inputs), None),
            (inputs.documents, document_mask),
            (self._special(form.after, inputs), None),
        ]
        ids = torch.cat([segment for segment, _ in segments], dim=1)  # [B, all segments with their padding]
        present = torch.cat([torch.ones_like(s, dtype=torch.bool) if m is None else m for s, m in segments], dim=1)
        types = torch.cat([torch.full_like(s, kind) for (s, _), kind in zip(segments, form.types)], dim=1)
        lengths = present.sum(dim=1)  # [B]
        # A stable sort moves the padding of all segments to the end and keeps the order of the other pieces.
        order = torch.argsort((~present).to(torch.uint8), dim=1, stable=True)[:, : int(lengths.max()) if batch else 0]
        mask = torch.arange(order.shape[1], device=ids.device) < lengths[:, None]  # [B, L]
        ids = ids.gather(1, order).masked_fill(~mask, self.padding)
        return ids, mask.to(torch.int64), types.gather(1, order).masked_fill(~mask, 0)

    def _special(self, pieces: tuple[int, ...], inputs: Inputs) -> Tensor:
        """Special pieces, the same for every sequence, int64 [B, s]."""
        return torch.tensor(pieces, dtype=torch.int64, device=inputs.documents.device).expand(len(inputs.documents), -1)

    def forward(self, inputs: Inputs) -> Tensor:
        ids, mask, types = self.sequences(inputs)  # [B, L]
        arguments = {"input_ids": ids, "attention_mask": mask, **({"token_type_ids": types} if self.has_types else {})}
        output = self.encoder(**arguments)
        if self.own_head:
            return output.logits[:, -1]  # [B]
        return self.head(self.dropout(output.last_hidden_state[:, 0]))[:, 0]  # [B, H] to [B]


class BioBert(CrossEncoder):
    """A :class:`CrossEncoder` named as in [K]'s tables; only the encoder folder differs."""

    name = "biobert"


@cache
def _warn_cased(folder: str) -> None:
    log.warning("the encoder %s is cased; an index holds words in lower case only", folder)
