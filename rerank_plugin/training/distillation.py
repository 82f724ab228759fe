"""Distils a sentence encoder into word vectors: a text is the sum of its words' vectors, at length 1.

The student is KTRel of words without its transformer layer ([K] 3, ``layers`` 0): it encodes a document in
microseconds. A word's vector starts as the teacher's vector of the word alone, weighted by ``a / (a + p)``, p the
word's share of all words (Arora, Liang and Ma, ICLR 2017). Then Adam trains all vectors on batches of texts to lower
the sum of three losses, with the student's unit vectors S and the teacher's T, projected on their largest directions:

* ``1 - S_i . T_i``: a text has the teacher's vector;
* ``KL(softmax(T T' / t) || softmax(S S' / t))``: a text has the teacher's neighbours in the batch;
* the same between titles and beginnings of documents, and between synonyms and names, both ways.

At the end each vector is multiplied by ``-log p``: the losses see short texts, and whole documents hold more common
words. For the same reason the common directions of the student's document vectors are removed (Arora et al.). Vectors
of concepts are made in the same way. Words without a vector share random vectors by their hashes, so that two texts
with the same rare name are close to each other.

Letters in shapes: B texts of a batch, n texts, V vocabulary, D dimension of the student, E of the teacher.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.terminal import progress
from rerank_plugin.concepts.annotation import Annotator
from rerank_plugin.files.arrays import map_array
from rerank_plugin.files.outputs import FileKind, beginning, replacing
from rerank_plugin.indexes.collection_statistics import CollectionStatistics
from rerank_plugin.indexes.index_folder import damage_as_input_error
from rerank_plugin.inputs.concept_reader import ConceptVocabulary
from rerank_plugin.knowledge.concept_vectors import ConceptVectors
from rerank_plugin.models.checkpoint import save_checkpoint
from rerank_plugin.models.encoder.folder import open_encoder
from rerank_plugin.models.ktrel.config import KtrelConfig
from rerank_plugin.models.ktrel.model import Ktrel
from rerank_plugin.models.register import packaged_folder
from rerank_plugin.text.tokenizer import PLAIN
from rerank_plugin.text.vocabulary import HASHED, Vocabulary
from rerank_plugin.text.word_vectors import WordVectors, compact
from rerank_plugin.training.distillation_texts import DistillationConfig, DistillationTexts

log = logging.getLogger(__name__)

NUMPY_FILE = FileKind("an array of vectors", lambda path: beginning(path).startswith(b"\x93NUMPY"))
CHUNK = 1024  # texts that are encoded and cached together
PROJECTED = 40_000  # texts that the projection is computed from
RARE = 19  # highest count of a rare word; the lowest count if all are higher


class Teacher:
    """A sentence encoder of sentence-transformers, whose vectors of texts are cached on disk.

    Args:
        folder: the model's folder, or ``minilm``.
        cache: folder of the vectors, so that an interrupted distillation need not encode its texts again.
        device: torch device.
        precision: ``float32``, or ``bfloat16``, three times as fast where the CPU or GPU multiplies in it; vectors then
            have a cosine of 0.9999 with those of float32.

    Raises:
        InputError: sentence-transformers is not installed, or the folder holds no encoder, or pickled weights.
    """

    def __init__(self, folder: str, cache: Path, device: str = "cpu", precision: str = "float32"):
        path = packaged_folder(folder)
        self.model = open_encoder(path, device)
        self.cache, self.dimension = cache, len(self.model.encode("any text"))  # E
        self.precision = torch.autocast(self.model.device.type, torch.bfloat16, precision == "bfloat16")
        digest = blake2b(precision.encode(), digest_size=16)
        for file in sorted([*path.rglob("*.safetensors"), *path.rglob("*.json")]):  # weights and settings
            digest.update(file.read_bytes())
        self.checksum = digest.hexdigest()

    def encode(self, texts: list[str], description: str = "encoding texts") -> np.ndarray:
        """Unit vectors of texts, float32 [n, E], rounded to half precision. Texts of similar length share a batch."""
        order = np.argsort([len(text) for text in texts], kind="stable")
        vectors = np.empty((len(texts), self.dimension), np.float32)
        starts = range(0, len(texts), CHUNK)
        for start in progress(starts, description, "steps", len(starts)):
            rows = order[start : start + CHUNK]
            vectors[rows] = self._cached([texts[row] for row in rows])
        return vectors

    def _cached(self, texts: list[str]) -> np.ndarray:
        key = blake2b("\n".join([self.checksum, *texts]).encode(), digest_size=16).hexdigest()
        path = self.cache / f"{key}.npy"
        if path.is_file():
            with damage_as_input_error(path, "remove it"):
                return np.array(map_array(path))
        with self.precision:
            vectors = self.model.encode(texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False)
        with replacing(path, NUMPY_FILE) as file:
            np.save(file, vectors.astype(np.float16))
        return vectors.astype(np.float16)


def distil(texts: DistillationTexts, teacher: Teacher, config: DistillationConfig) -> WordVectors:
    """Word vectors float32 [V, D] that encode texts as the teacher does; row 0, of UNK, is 0.

    Raises:
        InputError: there are fewer texts with known words than one batch, no documents with title and text, or fewer
            texts than dimensions.
    """
    words, counts = texts.vocabulary(config.minimum_count)
    vocabulary = Vocabulary(words)
    ids = [np.array([id for id in vocabulary.lookup(PLAIN.tokenize(text)) if id], np.int64) for text in texts.texts]
    matrix = _distilled(ids, counts, words, texts, teacher, config)
    rare = matrix[1:][counts <= max(RARE, counts.min())]
    length = config.hashed_length * np.linalg.norm(rare, axis=1).mean()
    random = np.random.default_rng(config.seed).normal(size=(config.hashed, config.dimension))
    random *= length / np.linalg.norm(random, axis=1, keepdims=True)
    entries = [f"{HASHED}{number}" for number in range(config.hashed)]
    return WordVectors(Vocabulary([*words, *entries]), np.vstack([matrix, random]).astype(np.float32))


def distil_concepts(
    texts: DistillationTexts, teacher: Teacher, config: DistillationConfig, annotator: Annotator
) -> ConceptVectors:
    """Vectors of all concepts of a knowledge base, as :func:`distil` makes those of words.

    A text is the sum of the concepts that the annotator finds in it; a concept in no text keeps the teacher's vector of
    its name.

    Raises:
        InputError: as `distil`, of texts with concepts.
    """
    base = annotator.knowledge
    rows = np.arange(len(base))
    ids = [concepts.astype(np.int64) + 1 for concepts in annotator.concepts(texts.texts)]
    counts = np.bincount(np.concatenate([[0], *ids]), minlength=len(base) + 1)[1:]
    matrix = _distilled(ids, counts, base.names.take(rows), texts, teacher, config)
    return ConceptVectors(base.ids.take(rows), matrix[1:])


def _distilled(
    ids: list[np.ndarray],
    counts: np.ndarray,
    names: list[str],
    texts: DistillationTexts,
    teacher: Teacher,
    config: DistillationConfig,
) -> np.ndarray:
    """Vectors of words or concepts, float32 [V, D], by their ids in each text, int64 [any]; row 0 is 0.

    Args:
        counts: of the ids from 1 on, int64 [V - 1].
        names: the texts of the initial vectors.
    """
    known = sum(len(of_text) > 0 for of_text in ids)
    pairs = [_known_pairs(ids, places) for places in (texts.documents, texts.names)]
    if known < max(config.batch_size, config.dimension) or not len(pairs[0]):  # checked before the slow part
        raise InputError(
            f"{known} texts and {len(pairs[0])} documents with title and text are too few for batches of "
            f"{config.batch_size} and {config.dimension} dimensions: give more texts, or a smaller batch size"
        )
    if config.dimension > teacher.dimension:
        raise InputError(f"the student's {config.dimension} dimensions are more than the teacher's {teacher.dimension}")
    targets = teacher.encode(texts.texts)  # [n, E]
    alone = teacher.encode(names, "encoding names")  # [V - 1, E]
    projection = _largest_directions(targets, config)  # [E, D]
    share = (counts + 0.5) / max(counts.sum(), 1)
    start = alone @ projection * (config.frequency / (config.frequency + share))[:, None]
    start = np.vstack([np.zeros((1, config.dimension)), start]).astype(np.float32)
    student = _Student(ids, start)
    _train(student, torch.from_numpy(targets @ projection), pairs, config)
    matrix = student.vectors.weight.detach().numpy()  # [V, D]
    surprise = -np.log(share)  # [V - 1]
    matrix[1:] *= (surprise / surprise.max())[:, None]
    common = _common_directions(student, np.unique(pairs[0][:, 1]), config.common)  # [c, D]
    matrix -= matrix @ common.T @ common
    return matrix


def _largest_directions(vectors: np.ndarray, config: DistillationConfig) -> np.ndarray:
    """The D directions in which vectors [n, E] have most of their length, float32 [E, D]."""
    sample = vectors[np.random.default_rng(config.seed).permutation(len(vectors))[:PROJECTED]]
    _, _, directions = np.linalg.svd(sample.T @ sample)
    return directions[: config.dimension].T.astype(np.float32)


@torch.inference_mode()
def _common_directions(student: _Student, documents: np.ndarray, count: int) -> np.ndarray:
    """The most common directions of document vectors, float32 [count, D]; documents are places of texts, int64 [n]."""
    encoded = student(documents).numpy()  # [n, D]
    _, directions = np.linalg.eigh(encoded.T @ encoded)  # by increasing eigenvalue, in columns
    return directions[:, ::-1][:, :count].T


class _Student(nn.Module):
    """The word vectors in training, and the words of all texts."""

    def __init__(self, ids: list[np.ndarray], start: np.ndarray):
        super().__init__()
        self.vectors = nn.EmbeddingBag.from_pretrained(torch.from_numpy(start), freeze=False, mode="sum", padding_idx=0)
        self.lengths = np.array([len(of_text) for of_text in ids])  # [n]
        self.ends = np.cumsum(self.lengths)  # [n]
        self.ids = np.concatenate(ids)

    def forward(self, rows: np.ndarray) -> Tensor:
        """Unit vectors of texts by place, int64 [B] to float32 [B, D]."""
        lengths = self.lengths[rows]
        starts = np.cumsum(lengths) - lengths
        places = np.arange(lengths.sum()) - np.repeat(starts - self.ends[rows] + lengths, lengths)
        sums = self.vectors(torch.from_numpy(self.ids[places]), torch.from_numpy(starts))  # [B, D]
        return functional.normalize(sums, dim=1)


def _train(student: _Student, targets: Tensor, pairs: list[np.ndarray], config: DistillationConfig) -> None:
    """Train the student towards the teacher's projected vectors, float32 [n, D]; kinds of pairs are int64 [P, 2]."""
    random, targets = np.random.default_rng(config.seed), functional.normalize(targets, dim=1)
    known = np.flatnonzero(student.lengths)
    steps = len(known) // config.batch_size
    optimizer = torch.optim.Adam(student.parameters(), lr=config.learning_rate, fused=True)
    total = steps * config.epochs
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / 100) * (0.05 + 0.95 * (1 - step / total))
    )
    losses = []
    for step in progress(range(total), "distilling", "steps", total):
        if step % steps == 0:
            order = random.permutation(known)
        rows = order[step % steps * config.batch_size :][: config.batch_size]
        loss = _loss_of_texts(student(rows), targets[rows], config.temperature)
        drawn = [kind[random.integers(len(kind), size=config.batch_size // 4)] for kind in pairs if len(kind)]
        queries, documents = np.concatenate(drawn).T
        loss = loss + _loss_of_pairs(
            student(queries), student(documents), targets[queries], targets[documents], config.temperature
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rate.step()
        losses.append(loss.item())
        if (step + 1) % steps == 0:
            log.info("epoch %d of %d: loss %.4f", (step + 1) // steps, config.epochs, np.mean(losses[-steps:]))


def _known_pairs(ids: list[np.ndarray], pairs: list[tuple[int, int]]) -> np.ndarray:
    """The pairs of texts that both have words, int64 [P, 2]."""
    return np.array([pair for pair in pairs if all(len(ids[place]) for place in pair)], np.int64).reshape(-1, 2)


def _loss_of_texts(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """The first two losses, a scalar, of unit vectors float32 [B, D]. A text is not its own neighbour."""
    own = torch.eye(len(student), dtype=torch.bool)
    distance = 1 - (student * teacher).sum(dim=1).mean()
    return distance + _divergence(
        (student @ student.T).masked_fill(own, -1e4), (teacher @ teacher.T).masked_fill(own, -1e4), temperature
    )


def _loss_of_pairs(
    queries: Tensor, documents: Tensor, teacher_queries: Tensor, teacher_documents: Tensor, temperature: float
) -> Tensor:
    """The third loss, a scalar, of unit vectors float32 [B, D] each."""
    student, teacher = queries @ documents.T, teacher_queries @ teacher_documents.T  # [B, B]
    return (_divergence(student, teacher, temperature) + _divergence(student.T, teacher.T, temperature)) / 2


def _divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """``KL(softmax(teacher / t) || softmax(student / t))``, the mean over the rows of [B, B]."""
    return functional.kl_div(
        functional.log_softmax(student / temperature, dim=1),
        functional.log_softmax(teacher / temperature, dim=1),
        reduction="batchmean",
        log_target=True,
    )


def save_student(
    folder: Path,
    vectors: WordVectors,
    config: DistillationConfig,
    description: dict,
    statistics: CollectionStatistics,
    concepts: ConceptVectors | None = None,
    annotation: dict | None = None,
) -> None:
    """Write the checkpoint of a distilled encoder, with its words' vectors as 8-bit numbers, atomically.

    Args:
        description: the sources of the distillation, as JSON values.
        statistics: of the documents of the distillation.
        concepts: vectors of an encoder that reads concepts, too.
        annotation: settings of the concepts' annotator.
    """
    small = compact(vectors)
    settings: dict = {"parts": "words", "layers": 0, "fixed_words": True, "factor": 1.0, "query_words": 64}
    concept_arguments: tuple = ()
    if concepts is not None:
        count, dimension = concepts.matrix.shape
        settings |= {"parts": "both", "concepts": count, "concept_dimension": dimension}
        concept_arguments = (torch.from_numpy(concepts.matrix), ConceptVocabulary(concepts.ids, annotation))
    model = Ktrel(KtrelConfig(**settings), torch.from_numpy(small.matrix), *concept_arguments)
    if concepts is not None:
        model.b.data.fill_(config.concept_weight)
    described = {"distillation": {**asdict(config), **description}, "seed": config.seed}
    save_checkpoint(folder, model, small, described, statistics=statistics)
