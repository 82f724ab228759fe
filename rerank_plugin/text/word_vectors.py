"""Word vectors: training with gensim's word2vec, import, and the folder that holds them ([D18] 3.1).

word2vec's binary format has a header with the numbers of words and dimensions, then words and vectors.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError, damage
from rerank_plugin.base.extras import naming_extras
from rerank_plugin.base.settings import check_bounds, setting
from rerank_plugin.files.artifact import Artifact
from rerank_plugin.files.checksums import check_once
from rerank_plugin.files.outputs import replacing_folder, scratch_folder
from rerank_plugin.files.regular_files import regular
from rerank_plugin.files.text_files import BUFFER, DAMAGED, byte_lines, open_bytes
from rerank_plugin.text.tokenizer import NUMERIC_CLASSES, PLAIN, Tokenizer, tokenizer_with
from rerank_plugin.text.vocabulary import UNKNOWN, Vocabulary

log = logging.getLogger(__name__)

UNKNOWN_RANGE = 0.25  # UNK ~ U[-0.25, 0.25] ([D18] 3.1)
INT8 = 127  # the largest 8-bit number
BATCH = 4096  # vectors that are decoded at once: they stay in the CPU's cache
SENTENCE_END = "</s>"  # the original word2vec writes it as its first word
WHITE = " \t\r\n"  # of a line; other white space, such as U+00A0, may be a word of GloVe
MOST_IMPORTED = 20_000_000  # vectors of a text file, which are kept in memory
FIRST_LINES = 100  # by which the dimension of a file without a header is told
VOCABULARY_FILE, VECTORS_FILE, SETTINGS_FILE = "vocab.txt", "embeddings.safetensors", "words.json"
REFERENCE = "vectors_of"  # key of the settings: another folder, which holds the vectors
WORD_VECTORS = Artifact(
    "a folder of word vectors",
    SETTINGS_FILE,
    {"tokenizer": dict[str, Any], "words": int},
    (VOCABULARY_FILE, VECTORS_FILE),
    optional={"dimension": int, REFERENCE: str, "checksum": int},
    editable=True,
    shared=True,
    again="copy the folder again, or make it again",
)


class EmbeddingTable(NamedTuple):
    """Vectors as rows of numbers, float32 or int8 [V, D], times a scale each, float32 [V]; that of float32 is 1."""

    numbers: np.ndarray
    scales: np.ndarray

    @classmethod
    def of(cls, vectors: EmbeddingTable | np.ndarray) -> EmbeddingTable:
        """The table of vectors float32 [V, D], which are not copied, or the table that is given."""
        return vectors if isinstance(vectors, EmbeddingTable) else cls(vectors, np.ones(len(vectors), np.float32))

    @property
    def is_quantized(self) -> bool:
        return self.numbers.dtype == np.int8

    def take(self, rows: np.ndarray | slice) -> np.ndarray:
        """Some of the vectors, float32 [n, D]."""
        return self.numbers[rows] * self.scales[rows, None]

    def batches(self) -> Iterator[np.ndarray]:
        """The vectors from the first to the last, float32 [at most BATCH, D] at once."""
        for start in range(0, len(self.numbers), BATCH):
            yield self.take(slice(start, start + BATCH))

    def decoded(self) -> np.ndarray:
        """All vectors, float32 [V, D]."""
        return self.take(slice(None)) if self.is_quantized else self.numbers


class WordVectors(NamedTuple):
    """A vocabulary and its vectors [V, D]; row 0 is UNK.

    The numbers are float32, or quantized, int8 with a scale for each vector, float32 [V].
    """

    vocabulary: Vocabulary
    numbers: np.ndarray
    scales: np.ndarray | None = None

    @property
    def table(self) -> EmbeddingTable:
        return EmbeddingTable.of(self.numbers if self.scales is None else EmbeddingTable(self.numbers, self.scales))

    @property
    def matrix(self) -> np.ndarray:
        """The vectors, float32 [V, D]; quantized ones are decoded at each call."""
        return self.table.decoded()


# The first learning rate of each model, as in the original word2vec.
METHODS = {"skip-gram": 0.025, "cbow": 0.05}


@dataclass(frozen=True)
class Word2VecConfig:
    """word2vec as [D18] 3.1 used it: skip-gram, hierarchical softmax, window 5, D = 300, minimum count 101.

    ``epochs`` is gensim's and word2vec's default; the paper gives none. For DRMM it used CBOW (4.3.4) and gives no
    settings: all are the same here, except the learning rate (``METHODS``).
    """

    dimension: int = setting(300, "dimension of the vectors", ge=1)
    minimum_count: int = setting(101, "minimum frequency of a word; rarer words become UNK", option="min_count", ge=1)
    window: int = setting(5, "context words on either side of a word", ge=1)
    epochs: int = setting(5, "passes over the corpus", ge=1)
    workers: int = setting(1, "training threads; more than one is not reproducible", ge=1)
    model: str = setting("skip-gram", "word2vec model", option="method", choices=tuple(METHODS))

    def __post_init__(self) -> None:
        check_bounds(self)


def unknown_vector(dimension: int, seed: int) -> np.ndarray:
    """The vector of UNK, float32 [D] ~ U[-0.25, 0.25] ([D18] 3.1)."""
    return np.random.default_rng(seed).uniform(-UNKNOWN_RANGE, UNKNOWN_RANGE, dimension).astype(np.float32)


def train(texts: Iterable[str], config: Word2VecConfig, seed: int, tokenizer: Tokenizer = PLAIN) -> WordVectors:
    """Train word vectors on texts, sentence by sentence ([D18] 4.1).

    The sentences go through a temporary file, so memory does not grow with the corpus. One worker gives the same
    vectors every time; more are faster, but not reproducible (threads race for the weights).

    Raises:
        InputError: no word occurs ``minimum_count`` times.
    """
    with naming_extras("word2vec"):
        from gensim.models import Word2Vec

    with scratch_folder() as folder:
        path = os.path.join(folder, "sentences.txt")
        with open(path, "w", encoding="utf-8") as file:
            for text in texts:
                file.writelines(" ".join(tokens) + "\n" for tokens in tokenizer.sentences(text))
        model = Word2Vec(
            vector_size=config.dimension,
            window=config.window,
            min_count=config.minimum_count,
            sg=int(config.model == "skip-gram"),
            alpha=METHODS[config.model],
            hs=1,
            negative=0,
            epochs=config.epochs,
            workers=config.workers,
            seed=seed,
        )
        model.build_vocab(corpus_file=path)
        if not len(model.wv):
            raise InputError(f"no word occurs {config.minimum_count} times; lower the minimum count")
        log.info("training %d word vectors on %s tokens", len(model.wv), f"{model.corpus_total_words:,}")
        model.train(
            corpus_file=path,
            total_words=model.corpus_total_words,
            total_examples=model.corpus_count,
            epochs=config.epochs,
        )
    return _with_unknown(list(model.wv.index_to_key), model.wv.vectors, seed, tokenizer)


def _with_unknown(words: list[str], vectors: np.ndarray, seed: int, tokenizer: Tokenizer) -> WordVectors:
    matrix = np.vstack([unknown_vector(vectors.shape[1], seed), vectors]).astype(np.float32)
    return WordVectors(Vocabulary(words, tokenizer.settings), matrix)


def import_word2vec(path: Path, binary: bool, seed: int, tokenizer: Tokenizer = PLAIN) -> WordVectors:
    """Read vectors in the text format of word2vec or GloVe, or in word2vec's binary format.

    Words are tokenized. Of several spellings of one token the first (in word2vec files the most frequent) is kept;
    words of several tokens are left out.

    Raises:
        InputError: the file cannot be read in that format.
    """
    names, vectors = read_binary(path) if binary else _text_vectors(path)
    rows: dict[str, int] = {}
    for row, word in enumerate(names):
        if word in (SENTENCE_END, UNKNOWN):
            continue
        tokens = [word] if word in NUMERIC_CLASSES else tokenizer.tokenize(word)
        if len(tokens) == 1:
            rows.setdefault(tokens[0], row)
    if not rows:
        raise InputError(f"{path} holds no word that is one token: check its format and encoding")
    log.info("kept %d of %d words", len(rows), len(names))
    matrix = vectors[list(rows.values())]
    if not np.isfinite(matrix).all():
        raise InputError(f"{path} holds vectors that are not finite: remove them, or train again")
    return _with_unknown(list(rows), matrix, seed, tokenizer)


def _text_vectors(path: Path) -> tuple[list[str], np.ndarray]:
    """The n words and vectors, float32 [n, D], of a text file: a word, which may hold spaces, and D numbers a line.

    word2vec writes n and D in the first line, GloVe does not.
    """
    try:
        decoded = (line.decode("utf-8", "replace").rstrip(WHITE) for line in byte_lines(path))
        rows = ((number, _fields(line)) for number, line in enumerate(decoded, 1) if line)
        start = list(islice(rows, FIRST_LINES))
        expected = None
        if start and len(header := start[0][1]) == 2 and all(part.isdigit() for part in header):
            (expected, dimension), start = map(int, header), start[1:]
        else:
            counts = Counter(_numbers_at_end(fields) for _, fields in start)
            dimension = max(counts, key=lambda count: (counts[count], count), default=0)
        words, vectors = [], []
        for number, fields in chain(start, rows):
            try:
                if not 0 < dimension <= len(fields):
                    raise ValueError
                vectors.append(np.array(fields[-dimension:], np.float32))
            except ValueError:
                expected_form = "expected a word and as many numbers as in the other lines"
                raise ValueError(f"line {number}: {expected_form}") from None
            words.append(" ".join(fields[:-dimension]))
            if len(words) > MOST_IMPORTED:
                raise ValueError(f"it holds more than {MOST_IMPORTED:,} vectors")
        if not words or len(words) != (expected or len(words)):
            raise ValueError(f"it holds {len(words)} vectors" + (f", its header says {expected}" if expected else ""))
    except (OSError, ValueError, *DAMAGED) as error:
        raise InputError(f"{path} cannot be read as word2vec text, nor as GloVe's: {damage(error)}") from None
    return words, np.stack(vectors)


def _fields(line: str) -> list[str]:
    return [part for part in line.replace("\t", " ").split(" ") if part]


def _numbers_at_end(fields: list[str]) -> int:
    """The number of numbers after the last part of a line that is none, or after its first part."""
    count = 0
    for part in reversed(fields[1:]):
        try:
            float(part)
        except ValueError:
            break
        count += 1
    return count


def compact(vectors: WordVectors, words: int | None = None) -> WordVectors:
    """Quantize vectors to 8-bit numbers, each vector scaled by its largest value: a quarter of the space.

    The first ``words`` are kept (the most frequent ones of trained vectors), and UNK.
    """
    kept = len(vectors.vocabulary) if words is None else min(words + 1, len(vectors.vocabulary))
    matrix = vectors.matrix[:kept]
    largest = np.abs(matrix).max(axis=1)  # [V]
    scales = np.where(largest > 0, largest / INT8, 1).astype(np.float32)  # [V]
    numbers = np.rint(matrix / scales[:, None]).astype(np.int8)  # [V, D]
    vocabulary = Vocabulary(vectors.vocabulary.words[1:kept], vectors.vocabulary.tokenizer)
    return WordVectors(vocabulary, numbers, scales)


def extend(vectors: WordVectors, words: Iterable[str], seed: int) -> WordVectors:
    """Add vectors of random direction and average length for those of ``words`` without a vector.

    A model that trains its embeddings can then distinguish these words, which would all be UNK otherwise.
    """
    new = sorted(set(words) - set(vectors.vocabulary.words))
    dimension = vectors.matrix.shape[1]
    drawn = np.random.default_rng(seed).normal(size=(len(new), dimension))
    lengths = np.linalg.norm(drawn, axis=1, keepdims=True)
    average = float(np.linalg.norm(vectors.matrix[1:], axis=1).mean()) if len(vectors.vocabulary) > 1 else 1.0
    return with_words(vectors, new, drawn / lengths * average)


def with_words(vectors: WordVectors, words: Sequence[str], rows: np.ndarray) -> WordVectors:
    """Add vectors [n, D] of further words, after the other words and before the hash entries."""
    old = vectors.vocabulary
    end = len(old) - old.hashed
    matrix = np.insert(vectors.matrix, end, rows.astype(np.float32), axis=0)
    return WordVectors(Vocabulary([*old.words[1:end], *words, *old.words[end:]], old.tokenizer), matrix)


def save(vectors: WordVectors, folder: Path, settings: dict, overwrite: bool = False) -> None:
    """Write a folder of word vectors (vocab.txt, embeddings.safetensors, words.json), atomically."""
    with replacing_folder(folder, WORD_VECTORS, overwrite) as writing:
        write(vectors, writing, settings)


def write(vectors: WordVectors, folder: Path, settings: dict) -> None:
    """Write the three files into an existing folder."""
    from safetensors.numpy import save_file

    vectors.vocabulary.save(folder / VOCABULARY_FILE)
    tensors = {"embeddings": np.ascontiguousarray(vectors.numbers, np.float32)}
    if vectors.scales is not None:
        tensors = {"embeddings": np.ascontiguousarray(vectors.numbers), "scales": vectors.scales}
    save_file(tensors, folder / VECTORS_FILE)
    vocabulary = vectors.vocabulary
    description = {"tokenizer": vocabulary.tokenizer, "words": len(vocabulary), "dimension": vectors.numbers.shape[1]}
    WORD_VECTORS.seal(folder, {**description, **settings})


def load(folder: Path) -> WordVectors:
    """Read the word vectors of a folder (also of a checkpoint), or of the folder that it refers to.

    Raises:
        InputError: a file is missing, vocabulary and vectors do not fit together, or the folder refers to vectors that
            have changed since.
    """
    settings = WORD_VECTORS.read(folder)
    if (source := vectors_folder(folder)) != folder:
        if not source.is_dir():
            raise InputError(f"{folder} refers to the word vectors in {source}, which does not exist: move both")
        vectors, expected = load(source), settings.get("checksum")
        files = [source / name for name in (VOCABULARY_FILE, VECTORS_FILE)]
        if not check_once(files, lambda: checksum(vectors) == expected, "word vectors", expected):
            raise InputError(
                f"{folder} was made with other word vectors than those in {source}: restore them, or train again"
            )
        return vectors
    WORD_VECTORS.check_files(folder, settings)
    tokenizer = tokenizer_with(settings["tokenizer"], f"{folder} was made from texts").settings
    vocabulary = Vocabulary.load(folder / VOCABULARY_FILE, tokenizer)
    path = folder / VECTORS_FILE
    tensors = read_tensors(path)
    scales = tensors.get("scales")
    if scales is not None and (scales.shape != (len(vocabulary),) or scales.dtype != np.float32):
        raise InputError(
            f"{path}: 'scales' is {scales.dtype} {list(scales.shape)}, expected float32 [{len(vocabulary)}]"
        )
    numbers = matrix_of(tensors, "embeddings", path, VOCABULARY_FILE, len(vocabulary))
    return WordVectors(vocabulary, np.array(numbers), scales)  # numpy allocates large pages: words are read faster


def read_tensors(path: Path, framework: str = "numpy") -> dict[str, Any]:
    """The tensors of a safetensors file as arrays of ``numpy`` or ``torch``; an `InputError` if it cannot be read."""
    from safetensors import SafetensorError

    try:
        open(regular(path), "rb").close()  # safetensors calls every error of the system a missing file
        return import_module(f"safetensors.{framework}").load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(f"cannot read {path}: {damage(error)}") from None


def matrix_of(tensors: dict[str, np.ndarray], name: str, path: Path, lines: str, count: int) -> np.ndarray:
    """The tensor ``name`` of the safetensors file ``path``, [count, D]: int8 if there are ``scales``, else float32.

    ``lines`` names the file beside it with a line for each row.

    Raises:
        InputError: the tensor is missing, has more or fewer rows, or it or its scales are not finite numbers.
    """
    matrix = tensors.get(name)
    if matrix is None or matrix.ndim != 2:
        raise InputError(f"{path} holds no matrix named {name!r}")
    if len(matrix) != count:
        raise InputError(
            f"{path.parent}: {lines} has {count} lines but {path.name} {len(matrix)} vectors: the files do not belong "
            "together"
        )
    scales = tensors.get("scales")
    if scales is None:
        matrix = matrix.astype(np.float32, copy=False)
    elif matrix.dtype != np.int8:
        raise InputError(f"{path}: {name!r} is {matrix.dtype}, and vectors with scales are int8")
    if not np.isfinite(matrix if scales is None else scales).all():
        raise InputError(f"{path} holds values that are not finite numbers")
    return matrix


def vectors_folder(folder: Path) -> Path:
    """The folder with the files of a folder's word vectors: itself, or the folder that it refers to."""
    reference = WORD_VECTORS.read(folder).get(REFERENCE) if (folder / SETTINGS_FILE).is_file() else None
    return folder if reference is None else folder / reference


def checksum(vectors: WordVectors) -> int:
    """A checksum of words and vectors."""
    checksum = zlib.crc32("\n".join(vectors.vocabulary.words).encode())
    for batch in vectors.table.batches():
        checksum = zlib.crc32(np.ascontiguousarray(batch).data, checksum)
    return checksum


def training_settings(config: Word2VecConfig) -> dict:
    """The settings of a training, for the folder's description."""
    return {"word2vec": {**asdict(config), "hierarchical_softmax": True}}


LONGEST_WORD = 10_000  # bytes; phrases are words, too


def read_binary(path: Path) -> tuple[list[str], np.ndarray]:
    """The n words and vectors, float32 [n, D], in the order of the file; a word may be repeated.

    Memory grows with the data that are read, not with the numbers of the header, and the file may be a pipe.

    Raises:
        InputError: the file is not in this format, is damaged, or holds more or fewer words than its header says.
    """
    words: list[str] = []
    vectors = bytearray()
    try:
        with open_bytes(path) as file:
            header = file.readline(100).split()
            if len(header) != 2 or not all(number.isdigit() for number in header):
                raise InputError(f"{path} cannot be read as word2vec binary: it does not begin with two numbers")
            count, dimension = map(int, header)
            width = 4 * dimension
            buffer, start = b"", 0
            while len(words) < count:
                space = buffer.find(b" ", start, start + LONGEST_WORD)
                if space < 0 and len(buffer) - start >= LONGEST_WORD:
                    raise _mismatch(path, count, f"something else after {len(words):,}")
                if space < 0 or len(buffer) < space + 1 + width:
                    if not (more := file.read(BUFFER)):
                        break
                    buffer, start = buffer[start:] + more, 0
                    continue
                vectors += buffer[space + 1 : space + 1 + width]
                words.append(buffer[start:space].lstrip(b"\n").decode(errors="replace"))
                start = space + 1 + width
            rest = (buffer[start:] + file.read(BUFFER)).strip(b"\n")
    except (OSError, *DAMAGED) as error:
        raise InputError(f"{path} cannot be read as word2vec binary: {damage(error)}") from None
    if not width or not words or len(words) < count or rest:
        raise _mismatch(path, count, f"{len(words):,} of {dimension:,} numbers" + (" and more" if rest else ""))
    return words, np.frombuffer(vectors, "<f4").reshape(-1, dimension)


def _mismatch(path: Path, count: int, found: str) -> InputError:
    return InputError(
        f"{path} cannot be read as word2vec binary: its header says {count:,} words, but it holds {found}: "
        "fetch or write it again"
    )
