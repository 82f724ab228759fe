"""Every kind of folder with every kind of damage: one line that names the folder, never another result.

A kind is a row of `KINDS`: how it is made, once, and what a reader gets of it, as a value to compare. A reader that
waits for a pipe is interrupted.
"""

import json
import os
import shutil
import signal
from dataclasses import dataclass, field

import numpy as np
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.concepts.knowledge_base import KNOWLEDGE_BASE, KnowledgeBase
from rerank_plugin.concepts.term_arrays import ANNOTATION, open_terms
from rerank_plugin.files.artifact import has_type
from rerank_plugin.files.checksums import SEAL, sealed
from rerank_plugin.indexes.faiss_folder import EXPORT, FaissFolder
from rerank_plugin.indexes.judged_queries import JUDGED, JudgedQueries, read_judged
from rerank_plugin.inputs.lexical_features import LEX3
from rerank_plugin.knowledge.concept_vectors import CONCEPT_VECTORS, load_concept_vectors, save_concept_vectors
from rerank_plugin.knowledge.entries import Concept, Relation
from rerank_plugin.models.checkpoint import CHECKPOINT, Checkpoint, save_checkpoint
from rerank_plugin.models.register import entry_of
from rerank_plugin.models.sharing import SHARED, fetch, save_shared
from rerank_plugin.text import word_vectors
from tests import small
from tests.annotated import knowledge_base

SECONDS = 300  # after which a reader hangs, on the busiest machine


@dataclass(frozen=True)
class Kind:
    artifact: object
    make: object  # called with a folder that does not exist, and pytest's request
    read: object  # called with a folder and the request
    verified: dict = field(default_factory=dict)  # letters whose sizes a verification is given
    foreign: bool = False  # whether there are folders without a description, which others wrote


def made_judged(folder, request):
    folder.mkdir()
    vectors, rows = np.eye(3, 4, dtype=np.float32), np.array([1, 7, 0, 3], np.uint32)
    index = request.getfixturevalue("index").forward
    JudgedQueries(vectors, np.array([0, 1, 2, 4], np.uint64), rows).write(folder, index, ["sample"])


def read_judged_queries(folder, request):
    judged, sources = read_judged(folder, request.getfixturevalue("index").forward, 4, "keep them again")
    return [array.tolist() for array in judged], sources


def made_knowledge(folder, request):
    concepts = [Concept("D1", "Heart attack", ("MI",), ("C",)), Concept("D2", "Cold", (), ("C", "D"))]
    knowledge_base(folder, concepts, [Relation("D1", "after", "D2")])


def read_knowledge(folder, request):
    base = KnowledgeBase(folder)
    rows = range(len(base))
    return base.checksum, list(map(base.terms_of, rows)), list(map(base.semantic_types, rows)), base.tails.tolist()


def made_terms(folder, request):
    made_knowledge(folder, request)
    open_terms(KnowledgeBase(folder))


def read_terms(folder, request):
    terms = ANNOTATION.open(folder / "annotation", C=2)
    return {name: array.tolist() for name, array in terms.arrays.items()}


def made_concepts(folder, request):
    save_concept_vectors(["D1", "D2"], np.eye(2, 3), np.ones((1, 3)), folder, {"seed": 1})


def read_concepts(folder, request):
    ids, matrix = load_concept_vectors(folder)
    return ids, matrix.tolist()


def read_words(folder, request):
    vectors = word_vectors.load(folder)
    return vectors.vocabulary.words, vectors.matrix.tolist()


def made_checkpoint(folder, request):
    vectors = small.word_vectors(small.KNOWN_WORDS[:5], 4, seed=1)
    model = small.delta(vectors, lexical_features=LEX3, filters=3)
    save_checkpoint(folder, model, vectors, {"measures": {"AP": 0.5, "loss": None}, "training": {"seed": 1}})


def read_checkpoint(folder, request):
    checkpoint = Checkpoint.open(folder).read()
    weights = {name: array.tolist() for name, array in checkpoint.arrays().items()}
    description = checkpoint.description
    return checkpoint.name, description["config"], description["measures"], checkpoint.vocabulary.words, weights


def made_shared(folder, request):
    made_checkpoint(folder.with_name("own"), request)
    save_shared(folder.with_name("own"), folder, "me/delta")


def read_shared(folder, request):
    return read_checkpoint(fetch(folder), request)


def made_export(folder, request):
    faiss = pytest.importorskip("faiss")
    folder.mkdir()
    index = faiss.IndexFlatIP(2)
    index.add(np.eye(3, 2, dtype=np.float32))
    faiss.write_index(index, str(folder / "index"))
    (folder / "docid").write_text("a\nb\nc\n")
    EXPORT.seal(folder, {"query_encoder": "ktrel", "factory": "Flat"})


def read_export(folder, request):
    opened = FaissFolder(folder)
    return opened.ids, opened.query_encoder, opened.index.reconstruct_n(0, 3).tolist()


KINDS = {
    "judged queries": Kind(JUDGED, made_judged, read_judged_queries, {"R": 40}),
    "knowledge base": Kind(KNOWLEDGE_BASE, made_knowledge, read_knowledge),
    "concept vectors": Kind(CONCEPT_VECTORS, made_concepts, read_concepts),
    "word vectors": Kind(
        word_vectors.WORD_VECTORS,
        lambda folder, _: word_vectors.save(small.word_vectors(small.KNOWN_WORDS[:5], 4, seed=1), folder, {}),
        read_words,
    ),
    "checkpoint": Kind(CHECKPOINT, made_checkpoint, read_checkpoint),
    "shared checkpoint": Kind(SHARED, made_shared, read_shared),
    "exported Faiss index": Kind(EXPORT, made_export, read_export, foreign=True),
}


@pytest.fixture(scope="module", params=KINDS)
def made(request, tmp_path_factory):
    """A kind, a folder of it, and what is read there."""
    kind, folder = KINDS[request.param], tmp_path_factory.mktemp("made") / "made"
    kind.make(folder, request)
    return kind, folder, kind.read(folder, request)


@pytest.fixture
def copy(made, tmp_path):
    return shutil.copytree(made[1], tmp_path / "copy")


@pytest.fixture(autouse=True)
def no_waiting():
    def hangs(*_):
        raise AssertionError("the reader hangs")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def refusal(made, folder, request):
    """The message of the refused folder; None where it is read as if nothing had happened."""
    kind, _, expected = made
    try:
        found = kind.read(folder, request)
    except InputError as error:
        cures = "again", kind.artifact.again
        assert str(folder) in str(error) and "\n" not in str(error) and any(cure in str(error) for cure in cures), error
        return str(error)
    assert found == expected
    return None


def flipped(content, place):
    return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def folder_instead(path):
    path.unlink()
    path.mkdir()


DAMAGES = {
    "missing": lambda path: path.unlink(),
    "a pipe": pipe,
    "a folder": folder_instead,
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\n"),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "flipped": lambda path: path.write_bytes(flipped(path.read_bytes(), path.stat().st_size // 2)),
}
OBJECTS = [b"{}", b"[]", b"null", b"3", b"\xff", b"[" * 100_000, b'{"format_version": 1}', b"<!doctype html>"]


def files_of(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_file_is_believed(made, tmp_path, request, damage):
    kind, original, _ = made
    unread = {"README.md", *([kind.artifact.description] if kind.foreign and damage == "missing" else [])}
    for number, name in enumerate(name for name in files_of(original) if name.name not in unread):
        folder = shutil.copytree(original, tmp_path / str(number))
        DAMAGES[damage](folder / name)
        white_space = damage == "longer" and name.as_posix() == kind.artifact.description
        assert (refusal(made, folder, request) is None) == white_space, name


def test_what_is_no_description_is_refused(made, copy, request):
    path = copy / made[0].artifact.description
    for content in OBJECTS:
        path.write_bytes(content)
        assert refusal(made, copy, request), content


def test_every_byte_of_a_description_counts(made, copy, request):
    path = copy / made[0].artifact.description
    content = path.read_bytes()
    for place in range(0, len(content), max(1, len(content) // 150)):
        path.write_bytes(flipped(content, place))
        refusal(made, copy, request)


def test_entries_of_another_type_are_named(made, copy, request):
    """In a description that somebody changed and sealed again."""
    artifact = made[0].artifact
    path = copy / artifact.description
    described = json.loads(path.read_bytes())
    for name, hint in {**artifact.optional, **artifact.keys}.items():
        for value in (None, True, 3, "x", [], [[]], {}, {"x": []}):
            if name in described and not has_type(value, hint):
                changed = {key: value for key, value in described.items() if key != artifact.seal_entry}
                path.write_text(json.dumps(sealed({**changed, name: value}, artifact.seal_entry)))
                assert name in refusal(made, copy, request), (name, value)


def test_a_folder_with_leftovers_of_a_killed_process_is_sound(made, copy, request):
    (copy / ".x.npy.rerank_plugin-0123abcd").write_bytes(b"half")
    (copy / ".sub.rerank_plugin-0123abcd").mkdir()
    assert refusal(made, copy, request) is None
    if made[0].artifact is not CHECKPOINT:  # the words in it have a description of their own
        made[0].artifact.verify(copy, **made[0].verified)


def test_arrays_that_can_be_built_again_are(tmp_path, request):
    """The terms of a knowledge base are kept beside it; damaged, they are built anew."""
    made_terms(tmp_path / "kb", request)
    expected, folder = read_terms(tmp_path / "kb", request), tmp_path / "kb" / "annotation"
    for name, damage in (("annotation.json", "truncated"), ("grams.npy", "a pipe"), ("form_slots.npy", "flipped")):
        DAMAGES[damage](folder / name)
        found = open_terms(KnowledgeBase(tmp_path / "kb"))
        assert {name: array.tolist() for name, array in found._asdict().items()} == expected
        shutil.rmtree(folder)
        open_terms(KnowledgeBase(tmp_path / "kb"))


@pytest.mark.parametrize("model", ["ktrel", "delta"])
def test_bundled_models_are_sealed(model, tmp_path):
    """Any byte of them that changes is noticed."""
    folder = entry_of(model).bundled
    described = Checkpoint.open(folder).description
    CHECKPOINT.check_files(folder, described)
    listed = {*described["files"], *word_vectors.WORD_VECTORS.read(folder)["files"]}
    assert SEAL in described and {path.name for path in folder.iterdir()} - listed == {
        "config.json", "statistics.safetensors"
    }  # fmt: skip
    for name in ("config.json", "model.safetensors", "words.json"):
        copy = shutil.copytree(folder, tmp_path / name, ignore=shutil.ignore_patterns("vocab.txt", "embeddings*"))
        (copy / name).write_bytes(flipped((copy / name).read_bytes(), 62))
        with pytest.raises(InputError, match=f"{name} (was changed|has changed|cannot be read)"):
            Checkpoint.open(copy).read()
