"""The hybrid of words and meaning: BM25, and RM3 if asked for, fused with an encoder, by default the bundled ``ktrel``.

Scores are interpolated as :mod:`rerank_plugin.retrieval.fusion` says. The encoder ranks what it finds itself and the
candidates of BM25: where its search reads only some inverted lists, documents that BM25 ranks high still get their
score by the encoder. What words and meaning agree on is feedback for
both: with RM3, BM25 searches again for the query expanded from the best fused documents, the more so the shorter it is;
then the encoder searches again, with the query moved towards the best of all. In the end, documents that the encoder
puts close to each other share their scores (:mod:`rerank_plugin.kernels.regularization`). ``index --encode ktrel`` also
adapts the bundled encoder to the index's documents, unless they are few. That one then stands in its place, and before
the end the best documents gain by how near their words are to each of the query's (``vector_matches`` of
:mod:`rerank_plugin.inputs.vector_features`). This first stage, and the rerankers after it, read misspelt words as what
they mean (:mod:`rerank_plugin.retrieval.meant_words`), and the encoder leaves out what neither it nor documents know.
Weights and numbers were chosen on the validation queries of
two collections (docs/models/ktrel.md, docs/dense-retrieval.md).
"""

from __future__ import annotations

import logging
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rerank_plugin.base.errors import InputError, SystemFailure
from rerank_plugin.base.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.faiss_gpu import ONE
from rerank_plugin.indexes.layout import ADAPTED, derived_folder
from rerank_plugin.indexes.vector_store import ENCODER, encode_command
from rerank_plugin.retrieval.dense import DenseConfig, DenseStage, NotEncodedError
from rerank_plugin.retrieval.faiss import FaissConfig, FaissStage
from rerank_plugin.retrieval.fusion import FUSION_DEPTH, fuse, min_max
from rerank_plugin.retrieval.lucene import RM3, LuceneConfig
from rerank_plugin.retrieval.meant_words import MeantWords
from rerank_plugin.retrieval.register import SHARED, FirstStageEntry, check_bounds, register, setting

if TYPE_CHECKING:
    from rerank_plugin.inputs.vector_features import VectorFeatures

log = logging.getLogger(__name__)

HYBRID, HYBRID_RM3 = "hybrid", "hybrid+rm3"
# Of an encoder, in fusions without and with RM3; others have those of the bundled one.
WEIGHTS = {ENCODER: (0.35, 0.25), ADAPTED: (0.4, 0.3), "minilm": (0.5, 0.35)}
RM3_SHARE = 0.6  # of what the encoder leaves; BM25 has the rest
REGULARIZED_RM3 = 500  # documents whose scores are regularized with RM3, which finds more of them
MATCHED, MATCHES = 300, 0.2  # documents that the matches of single words are added for, and their weight


@dataclass(frozen=True)
class HybridConfig:
    """The hybrid's settings; the rest are the defaults of its stages.

    Attributes:
        name: ``hybrid`` or ``hybrid+rm3``.
        nprobe, ef_search, device, engine, float16, gpus: of the search of the vectors.
        weight: in all fusions; None for the encoder's own of `WEIGHTS`.
        rm3_documents, rm3_terms, rm3_even: of RM3, as `LuceneFirstStage.search_near` takes them.
        regularized, neighbours, regularization: of the scores: number of documents, nearest others of each, and weight.
    """

    name: str = HYBRID
    encoder: str = setting(
        ENCODER, "encoder of the hybrid, or faiss:FOLDER", option="hybrid_encoder", metavar="CHECKPOINT"
    )
    weight: float | None = setting(
        None,
        "encoder weight, 0 to 1; raise it for a fine-tuned encoder (default: 0.35, with RM3 0.25; adapted 0.4 and 0.3; "
        "minilm 0.5 and 0.35)",
        option="hybrid_weight",
        metavar="W",
        type=float,
        ge=0,
        le=1,
    )
    rm3_documents: int = 7
    rm3_terms: int = 30
    rm3_even: float = 2.0
    feedback: int = setting(
        5,
        "fused documents that the encoder's query vector is moved towards; for a fine-tuned encoder take 3, with a "
        "weight of 0.3",
        option="hybrid_feedback",
        metavar="N",
        ge=0,
    )
    feedback_weight: float = setting(
        0.5, "weight of those documents; that of the query is 1", option="hybrid_feedback_weight", ge=0
    )
    as_written: bool = setting(
        False, "take words that no document has as they are written, not as near ones", option="hybrid_as_written"
    )
    nprobe: int | None = setting(None, SHARED)
    ef_search: int | None = setting(None, SHARED)
    device: str = setting("cpu", SHARED)
    engine: str | None = setting(None, SHARED, option="dense_engine")
    float16: bool = setting(False, SHARED, option="faiss_float16")
    gpus: str = setting(ONE, SHARED, option="faiss_gpus")
    query_encoder: str = setting("", SHARED)  # this and the next five: of faiss:FOLDER
    query_prefix: str = setting("", SHARED)
    pooling: str | None = setting(None, SHARED)
    l2_norm: bool = setting(False, SHARED)
    max_length: int | None = setting(None, SHARED)
    encoded_queries: str = setting("", SHARED)
    expand: str = setting("", SHARED)
    regularized: int = 300
    neighbours: int = 5
    regularization: float = 0.3

    def __post_init__(self) -> None:
        check_bounds(self)

    def weights(self, adapted: bool = False) -> tuple[float, float]:
        """The encoder's weight, or that of the adapted one, in fusions without and with RM3."""
        if self.weight is not None:
            return self.weight, self.weight
        return WEIGHTS.get(ADAPTED if adapted else self.encoder, WEIGHTS[ENCODER])

    def dense(self) -> DenseConfig | FaissConfig:
        """The dense part."""
        name, _, folder = self.encoder.partition(":")
        if name != FaissConfig.name or not folder:
            return self.stored(self.encoder)
        return FaissConfig(**self._shared(FaissConfig), folder=folder)

    def stored(self, checkpoint: str) -> DenseConfig:
        """The search of the vectors that the index stores by a checkpoint."""
        return DenseConfig(checkpoint, **self._shared(DenseConfig))

    def _shared(self, config: type) -> dict[str, Any]:
        """The settings that the hybrid passes to its dense part."""
        own = {entry.name for entry in fields(self)}
        names = own & {entry.name for entry in fields(config)} - {"name", "feedback", "feedback_weight"}
        return {name: getattr(self, name) for name in names}

    def open(self, index) -> HybridStage:
        return HybridStage(index, self)


class DamagedEncoderError(InputError):
    """The encoder that is adapted to an index cannot be read."""


class HybridStage:
    """The hybrid over an index. It is thread-safe; an `InputError` if the index holds no encodings by the encoder."""

    filters = True
    settings = ("expand",)  # of `configured`, for one search

    def __init__(self, index, config: HybridConfig):
        self.forward, self.config, self.name = index.forward, config, config.name
        by_adapted = _adapted(index, config) if config.encoder == ENCODER else None
        adapted = by_adapted is not None
        self.dense: DenseStage | FaissStage = by_adapted or config.dense().open(index)
        self.words, self.weights = LuceneConfig(expand=config.expand).open(index), config.weights(adapted)
        if self.name == HYBRID_RM3:
            self.words.configured(name=RM3)  # refused where it cannot be computed
        self.meant: MeantWords | None = None
        if isinstance(self.dense, DenseStage) and not config.as_written:
            vocabulary = self.dense.encoder.reranker.builder.vocabulary
            self.meant = MeantWords(self.forward, vocabulary) if len(vocabulary) > 1 else None  # of word pieces
        self.matches: VectorFeatures | None = None
        if by_adapted is not None:
            from rerank_plugin.inputs.vector_features import VectorFeatures

            encoder = by_adapted.encoder
            vectors, dimension = encoder.reranker.model.stored_arrays()["words.embeddings"], encoder.spaces.widths[0]
            self.matches = VectorFeatures(["vector_matches"], vectors, dimension)  # of the encoder's own space

    def configured(self, expand: str) -> HybridStage:
        """This first stage with another expansion of words, over what it has open; errors as of `LuceneConfig`."""
        configured = copy(self)
        configured.config, configured.words = replace(self.config, expand=expand), self.words.configured(expand=expand)
        return configured

    def search(self, query: Query, depth: int) -> Candidates:
        """The best ``depth`` of the fused documents."""
        from rerank_plugin.kernels.regularization import regularize  # numba is slow to import

        config, written = self.config, query
        query = query if self.meant is None else self.meant.read(query)
        weight, with_rm3 = self.weights
        in_set = query.filter is not None and query.filter.strategy is not None  # which is ranked as a whole
        reach = max(FUSION_DEPTH, depth) if in_set else FUSION_DEPTH
        weights = [1 - weight, weight]
        known = query if self.meant is None else self.meant.known(query)  # for the rest the encoder has random vectors
        words, encoded = [self.words.search(query, reach)], cast(Any, self.dense.read(known))
        near = self.dense.nearest(encoded, reach, candidates=words[0].rows)
        if self.name == HYBRID_RM3:
            best = fuse(self.forward, [*words, near], weights, config.rm3_documents)
            words.append(self.words.search_near(query, best, config.rm3_terms, config.rm3_even, reach))
            words_share = 1 - with_rm3
            weights = [words_share * (1 - RM3_SHARE), words_share * RM3_SHARE, with_rm3]
        best = fuse(self.forward, [*words, near], weights, config.feedback)
        near = self.dense.nearest(encoded, reach, best.rows, config.feedback_weight, words[0].rows)
        fused = fuse(self.forward, [*words, near], weights, max(depth, config.regularized))
        if self.matches is not None:
            fused = self._with_matches(self.matches, query, fused)
        encodings = self.dense.decode(fused.rows[: config.regularized])
        scores = regularize(fused.first_stage_scores, encodings, config.neighbours, config.regularization)
        found = Candidates(self.forward, fused.rows, scores).best(depth)
        found.read_as = None if query is written else query
        return found

    def dense_by(self, checkpoint: str) -> DenseStage | None:
        """The dense part, if it is by this checkpoint, not adapted."""
        dense = self.dense
        return dense if isinstance(dense, DenseStage) and dense.config.checkpoint == checkpoint else None

    def lacking_words(self, query: Query) -> list[str]:
        return self.dense.lacking_words(query)

    def meant_words(self, query: Query) -> dict[str, str]:
        return {} if self.meant is None else self.meant.of(query.text)

    def _with_matches(self, features: VectorFeatures, query: Query, fused: Candidates) -> Candidates:
        """The best fused documents with the matches of the query's words, brought to [0, 1], added to their scores."""
        assert isinstance(self.dense, DenseStage), "of the adapted encoder"
        builder, best = self.dense.encoder.reranker.builder, fused.best(MATCHED)
        scores = fused.first_stage_scores.copy()
        if len(best):
            matches = features(builder, builder.query(self.forward.query(query.text)), best)[:, 0]
            scores[: len(best)] += np.float32(MATCHES) * min_max(matches).astype(np.float32)
        return Candidates(self.forward, fused.rows, scores).best()


def _adapted(index, config: HybridConfig) -> DenseStage | None:
    """Dense retrieval by the adapted encoder; None where the index has none, or was not yet encoded by it.

    Raises:
        InputError: it cannot be used; as a `DamagedEncoderError` where its files are damaged.
    """
    folder, command = derived_folder(index, ADAPTED), encode_command(index, ENCODER)
    if not folder.is_dir():
        return None
    try:
        return config.stored(str(folder)).open(index)
    except NotEncodedError as error:
        log.warning(
            "the hybrid reads %s as it is, not adapted to this index, until you run '%s': %s", ENCODER, command, error
        )
        return None
    except SystemFailure:
        raise
    except InputError as error:
        if not str(error).startswith(str(folder)):
            raise
        cause = str(error).partition(";")[0].partition(": it is damaged")[0]
        raise DamagedEncoderError(f"{cause}: make the index's own encoder again with: {command}") from None


register(FirstStageEntry(HybridConfig, "BM25 fused with the bundled encoder ktrel (English, biomedical)"))
register(FirstStageEntry(HybridConfig, "the same and RM3", fixed={"name": HYBRID_RM3, "regularized": REGULARIZED_RM3}))
