"""The annotator: similarities by hand, against the plain twin, and at the borders."""

import json
import shutil
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rerank_plugin.base.errors import InputError
from rerank_plugin.concepts import term_arrays
from rerank_plugin.concepts.annotation import Annotator, AnnotatorConfig
from rerank_plugin.concepts.knowledge_base import KnowledgeBase
from rerank_plugin.concepts.word_forms import term_forms, words
from rerank_plugin.corpora import documents
from rerank_plugin.knowledge.entries import Concept
from rerank_plugin.knowledge.sources import open_source
from tests.annotated import knowledge_base
from tests.concepts.plain_annotator import PlainAnnotator

NAMES = [
    ["Myocardial Infarction", "Infarction, Myocardial", "Heart Attack", "Heart Attacks"],
    ["Infarction", "Infarctions"],
    ["Cold Temperature", "Cold"],
    ["Common Cold", "Cold"],
    ["Vitamin A"],
    ["Diabetes Mellitus, Type 2", "Type 2 Diabetes"],
    ["Cyclosporins", "Cyclosporines"],
    ["Cyclosporine"],
    ["Esophageal Neoplasms", "Esophageal Tumors"],
    ["Alzheimer Disease"],
    ["Tumor Necrosis Factor-alpha", "TNF-alpha"],
    ["abcd"],
    ["Acid Phosphatase of a Very Long Name with More than Five Words"],
    ["Hypertension"],
    ["It"],
    ["糖尿病"],
    ["!!!"],
]
WORDS = sorted({word for names in NAMES for name in names for word in name.replace(",", "").split()})
ALL = dict(threshold=0.7)


def knowledge_of(names, folder):
    return knowledge_base(
        folder, (Concept(f"C{row}", name, tuple(synonyms)) for row, (name, *synonyms) in enumerate(names))
    )


@pytest.fixture(scope="module")
def knowledge(tmp_path_factory):
    return knowledge_of(NAMES, tmp_path_factory.mktemp("annotation") / "kb")


@pytest.fixture(scope="module")
def annotator(knowledge):
    return Annotator(knowledge, AnnotatorConfig(**ALL), threads=1)


@pytest.mark.parametrize(
    "threshold, text, similarity",
    [
        # hyp ype per ert rte ten ens nsi sio ion: 10 trigrams; without the second s: ... ten eni nio ion: 9, of which
        # hyp ype per ert rte ten ion are common: 7 / (10 + 9 - 7) < 0.7. With one letter more at the end: 10 / 11.
        (0.7, "hypertenion", None),
        (0.7, "hypertensione", 10 / 11),
        # abc bcd; abc bcd cde: the threshold itself is similar enough
        (2 / 3, "abcde", 2 / 3),
        (np.nextafter(2 / 3, 1), "abcde", None),
        # abc bcd cda dab, each of which but the last occurs three times, counts once; abc bcd: 2 / 4
        (0.5, "abcdabcdabcd", 2 / 4),
    ],
)
def test_similarity_by_hand(knowledge, threshold, text, similarity):
    mentions = Annotator(knowledge, AnnotatorConfig(threshold=threshold), threads=1).annotate(text)
    row = 13 if text[0] == "h" else 11
    assert mentions == ([] if similarity is None else [(0, len(text), (row,), (similarity,))])


LONG = "acid phosphatase of a very long name with more than five words"


@pytest.mark.parametrize(
    "text, marked",
    [
        pytest.param(
            "Myocardial infarctions, heart attacks; oesophageal tumours and Alzheimer's disease (TNFα).",
            {"Myocardial infarctions": "Myocardial Infarction", "heart attacks": "Myocardial Infarction",
             "oesophageal tumours": "Esophageal Neoplasms", "Alzheimer's disease": "Alzheimer Disease",
             "TNFα": "Tumor Necrosis Factor-alpha"},
            id="permuted terms, plurals and spellings",
        ),
        pytest.param(
            f"Type 2 diabetes, vitamin A and {LONG}, diabetes mellitus type 2; it.",
            {"Type 2 diabetes": "Diabetes Mellitus, Type 2", "vitamin A": "Vitamin A", LONG: NAMES[12][0],
             "diabetes mellitus type 2": "Diabetes Mellitus, Type 2"},
            id="exact matches may have numbers, stop words and any length",
        ),
        pytest.param(
            "🙂 Sjo\u0308gren—ﬁne… 糖尿病 & “Hypertension” naïve\u00a0heart  attack",
            {"糖尿病": "糖尿病", "Hypertension": "Hypertension", "heart  attack": "Myocardial Infarction"},
            id="places are of the text as it is",
        ),
        pytest.param(
            "Hyper\u00adtension, heart\u200b at\u00adtack",
            {"Hyper\u00adtension": "Hypertension", "heart\u200b at\u00adtack": "Myocardial Infarction"},
            id="format characters are a part of their word",
        ),
        *(pytest.param(f"heart{mark}attack infarction", {"infarction": "Infarction"}, id=f"no mention spans {mark!r}")
          for mark in (". ", ", ", "\n", " (")),
    ],
)  # fmt: skip
def test_marked_mentions(annotator, text, marked):
    names = annotator.knowledge.names
    mentions = [(text[mention.start : mention.end], names[mention.concepts[0]]) for mention in annotator.annotate(text)]
    assert mentions == list(marked.items())


def test_an_ambiguous_term_has_its_concepts_by_row_at_most_k(annotator):
    assert annotator.annotate("a cold") == [(2, 6, (2, 3), (1.0, 1.0))]
    first_only = Annotator(annotator.knowledge, AnnotatorConfig(candidates=1), threads=1)
    assert first_only.annotate("cold")[0].concepts == (2,)


def test_a_plural_gives_way_to_a_term_that_is_written_so(annotator):
    (mention,) = annotator.annotate("cyclosporine")
    assert mention.concepts == (7, 6) and mention.similarities[1] < 1


def test_overlap_by_score_or_by_length(tmp_path):
    knowledge = knowledge_of([["Acute Infarction"], ["Infarction"]], tmp_path / "kb")
    # the text shares 13 of 14 trigrams with the first name; its second word equals the second name
    by_score = Annotator(knowledge, AnnotatorConfig(), threads=1).annotate("cute infarction")
    by_length = Annotator(knowledge, AnnotatorConfig(overlap="length"), threads=1).annotate("cute infarction")
    assert by_score == [(5, 15, (1,), (1.0,))]
    assert by_length == [(0, 15, (0,), (13 / 14,))]


def test_only_equal_names_without_approximation(knowledge):
    exact = Annotator(knowledge, AnnotatorConfig(approximate=False), threads=1)
    assert exact.annotate("hypertensione") == []
    assert [mention.concepts for mention in exact.annotate("Hypertension!")] == [(13,)]


@pytest.mark.parametrize("text", ["", " ", "\n", "!!!", "a", "the of and", "\ud800", "x" * 200_000, "ab " * 3000])
def test_texts_without_mentions(annotator, text):
    assert annotator.annotate(text) == []
    assert [rows.tolist() for rows in annotator.concepts([text, "cold"])] == [[], [2, 3]]
    assert annotator.concepts([]) == annotator.annotate_all([]) == []


def test_many_repeated_mentions(annotator):
    assert len(annotator.annotate("cold " * 5000)) == 5000


PIECES = st.one_of(
    st.sampled_from(
        [word.lower() for word in WORDS] + WORDS + ["of", "the", "2", "tumours", "infarctoin", "hypertnsion"]
    ),
    st.text(alphabet="abcdehinoprst", min_size=1, max_size=6),
    st.text(max_size=3),
)
TEXTS = st.lists(st.tuples(PIECES, st.sampled_from([" ", " ", " ", "-", ", ", ". ", "\n", "'s "])), max_size=14).map(
    lambda pairs: "".join(piece + separator for piece, separator in pairs)
)


@pytest.mark.parametrize("options", [dict(threshold=0.5), ALL, dict(threshold=0.85, overlap="length", candidates=2)])
def test_equals_the_plain_twin(knowledge, options):
    config = AnnotatorConfig(**options)
    fast, plain = Annotator(knowledge, config, threads=1), PlainAnnotator(NAMES, config)

    @given(TEXTS)
    @example("Myocardial infarctoin type 2 diabetes mellitus, Cold cold")
    def check(text):
        assert fast.annotate(text) == plain.annotate(text)

    check()


def test_concepts_are_those_of_the_mentions_and_threads_change_nothing(knowledge):
    texts = [f"{'cold ' * (n % 7)} heart attack, hypertensione {n} vitamin a" for n in range(100)]
    texts[17] = ""
    single, parallel = (Annotator(knowledge, AnnotatorConfig(), threads=threads) for threads in (1, 3))
    expected = [[row for mention in single.annotate(text) for row in mention.concepts] for text in texts]
    for annotator in (single, parallel):
        got = annotator.concepts(texts)
        assert [rows.tolist() for rows in got] == expected
        assert all(rows.dtype == np.uint32 for rows in got)
    assert single.annotate_all(texts) == parallel.annotate_all(texts)


@pytest.fixture
def copied(knowledge, tmp_path):
    """The folder of a knowledge base without stored look-up arrays."""
    ignored = shutil.ignore_patterns("annotation")
    return Path(shutil.copytree(knowledge.folder, tmp_path / "kb", ignore=ignored))


def cold(folder):
    return Annotator(KnowledgeBase(folder), threads=1).annotate("cold")


def test_look_up_arrays_are_stored_and_rebuilt_for_another_knowledge_base_or_if_damaged(copied):
    expected, arrays = cold(copied), copied / "annotation"
    kept = {path.name: path.stat().st_mtime_ns for path in arrays.iterdir()}
    assert cold(copied) == expected
    assert {path.name: path.stat().st_mtime_ns for path in arrays.iterdir()} == kept
    described = json.loads((arrays / "annotation.json").read_text())
    (arrays / "annotation.json").write_text(json.dumps({**described, "knowledge": "another"}))
    assert cold(copied) == expected
    assert json.loads((arrays / "annotation.json").read_text()) == described
    grams = np.load(arrays / "grams.npy")
    np.save(arrays / "grams.npy", np.zeros(3, np.int32))
    assert cold(copied) == expected
    np.testing.assert_array_equal(np.load(arrays / "grams.npy"), grams)


def test_a_folder_that_cannot_be_written_to(copied, monkeypatch, caplog):
    def refuse(folder, *_, **__):
        raise InputError(f"{folder}: cannot be written (Permission denied)")

    monkeypatch.setattr(term_arrays, "replacing_folder", refuse)
    assert cold(copied)
    assert "cannot be written" in caplog.text and not (copied / "annotation").exists()


def test_the_settings_tell_the_knowledge_base(annotator, knowledge):
    assert annotator.settings["knowledge"] == knowledge.checksum
    assert annotator.settings["threshold"] == 0.7
    assert json.loads(json.dumps(annotator.settings)) == annotator.settings


@pytest.mark.parametrize(
    "options",
    [{"candidates": 0}, {"threshold": 0}, {"threshold": 1.1}, {"window": 0}, {"similarity": "dice"}, {"overlap": "x"}],
)
def test_invalid_settings(options):
    with pytest.raises(InputError):
        AnnotatorConfig(**options)


def test_equal_names_are_those_of_an_automaton(knowledge):
    """pyahocorasick over the words' forms finds the same names at word borders, of which the longest are kept."""
    ahocorasick = pytest.importorskip("ahocorasick")
    automaton = ahocorasick.Automaton()
    for names in NAMES:
        for name in names:
            for form in term_forms(name):
                automaton.add_word(f" {form} ", form)
    automaton.make_automaton()
    text = "heart attacks after a cold with Vitamin A and esophageal tumours in type 2 diabetes"
    exact = Annotator(knowledge, AnnotatorConfig(approximate=False), threads=1)
    forms = {" ".join(words(text[mention.start : mention.end]).forms) for mention in exact.annotate(text)}
    assert forms == {form for _, form in automaton.iter(f" {' '.join(words(text).forms)} ")}


@pytest.mark.real_data
def test_equals_the_plain_twin_on_real_abstracts_and_names(real_data, tmp_path):
    names = [[concept.name, *concept.synonyms] for concept in open_source(str(real_data / "mesh")).concepts][::12]
    knowledge = knowledge_of(names, tmp_path / "kb")
    abstracts = documents(str(real_data / "abstracts" / "ncbi-disease.jsonl.gz"), ids_required=False)
    texts = [f"{document.title}\n{document.abstract[:300]}" for document in islice(abstracts, 3)]
    config = AnnotatorConfig(threshold=0.6)
    plain = PlainAnnotator(names, config)
    expected = [plain.annotate(text) for text in texts]
    assert Annotator(knowledge, config, threads=2).annotate_all(texts) == expected
    assert sum(map(len, expected)) > 1
