"""Notes on a query: which queries get them, from which parts of a search, and that each is logged once."""

from collections import Counter

import numpy as np
import pytest

import rerank_plugin as rp
from rerank_plugin.base.records import Query
from rerank_plugin.corpora import queries
from rerank_plugin.models.register import entry_of
from rerank_plugin.ranking.notes import SYNTAX, NotesLog, notes_of
from rerank_plugin.retrieval.fusion import FusedStage, FusionConfig
from rerank_plugin.retrieval.register import configure
from rerank_plugin.text.tokenizer import tokenize
from rerank_plugin.text.vocabulary import Vocabulary
from tests.processes import ROOT

GERMAN = "Welche Nebenwirkungen haben Statine bei Bluthochdruck?"
FEW = "delta knows few of the query's words, so the ranking means little; the models of this package read English"


@pytest.fixture
def searcher(index):
    with rp.Searcher(index, "delta") as opened:
        yield opened


@pytest.mark.parametrize(
    "text, noted",
    [
        ("statins AND cancer", True),
        ("NOT stroke", True),
        ("statins and not cancer", False),
        ("ANDROGEN OR", False),
        ('the "heart attack" of women', True),
        ("the “heart attack” of women", True),
        ("Crohn's disease, Parkinson's", False),
        ("aspirin[ti]", True),
        ("stroke [MeSH Terms:noexp]", True),
        ("Smith J[Author]", True),
        ("benzo[a]pyrene and [18F]FDG", False),
        ("thrombo* in women", True),
        ("neuro*[tiab]", True),
        ("is p53 mutated? HLA-A*02:01, 3 * 4", False),
        ("Title: aspirin, mesh-free: a subtitle:x", False),
        ('5" needles, [Ca2+]i', False),
    ],
)
def test_what_is_read_as_words(text, noted):
    assert notes_of(Query("q", text), None, None) == [SYNTAX] * noted


@pytest.mark.parametrize(
    "text, note",
    [
        ("(title:aspirin)", "'title:' is read as a word"),
        ("(wom?n)", "'?' is no wildcard in wom?n"),
        ("sleep NEAR/3 quality", "'NEAR/3' is read as words"),
        ("of *thrombo", "'*' is ignored in *thrombo"),
        ("falls[foo] and", "[foo] is no tag of PubMed's"),
        ('he said "no', "the quote does not close"),
    ],
)
def test_what_is_mistaken_for_syntax(text, note):
    (said,) = notes_of(Query("q", text), None, None)
    assert said.startswith(note)


def test_words_that_a_model_does_not_read(searcher):
    assert searcher.notes("aspirin " * 70) == ["delta reads the first 64 of the query's 70 words"]


def test_what_a_vocabulary_knows_few_of():
    """By hand: content words are plain, have four letters and are no stop-words; one unknown word is not enough."""
    words = Vocabulary(["what", "causes", "heart", "attack", "<hash>1"])
    few = ["qu ursachen herzinfarkt", "what ursachen herzinfarkt attack", "herzinfarkt ursachen herzinfarkt with"]
    enough = ["herzinfarkt", "herzinfarkt herzinfarkt", "what causes heart ursachen herzinfarkt", "brca1 il2 a b c", ""]
    assert all(words.knows_few_words(text.split()) for text in few)
    assert not any(words.knows_few_words(text.split()) for text in enough)
    assert words.knows_few_words(["herzinfarkt"], in_texts=False) and not words.knows_few_words(
        ["heart"], in_texts=False
    )
    assert not Vocabulary([]).knows_few_words(few[0].split())  # of a model that reads pieces of words


def test_questions_in_other_languages_and_in_english():
    """The counts that docs/models/README.md tells; the sample's English queries are all known well enough."""
    words = Vocabulary.load(entry_of("ktrel").bundled / "vocab.txt")
    lines = (ROOT / "tests" / "data" / "foreign_questions.tsv").read_text("utf-8").splitlines()[1:]
    noted = Counter(line.split("\t")[1] for line in lines if words.knows_few_words(tokenize(line.split("\t")[2])))
    assert noted == {"yes": 54, "no": 27} and len(lines) == 90
    assert not any(words.knows_few_words(tokenize(query.text)) for query in queries("sample:test"))


def test_a_search_says_it_once(searcher, caplog):
    unknown = [
        f"no document has '{word}'" for word in ("welche", "nebenwirkungen", "haben", "statine", "bluthochdruck")
    ]
    noted = searcher.notes(GERMAN)
    assert (
        noted[-1] == FEW
        and all(note.split(":")[0] in unknown for note in noted[:-1])
        and noted[:-1]
        and searcher.notes("aspirin") == []
    )
    for text in (GERMAN, "aspirin AND stroke", GERMAN, "aspirin"):
        searcher.search(text)
    assert caplog.messages == [f"'{GERMAN}': {FEW}", f"'aspirin AND stroke': {SYNTAX}"]
    caplog.clear()
    rp.rank_many(searcher.index, {"1": "aspirin", "2": "a NOT b", "3": "stroke OR c", "4": GERMAN}, "delta")
    assert caplog.messages == [f"2 of 4 queries, as 'a NOT b': {SYNTAX}", f"1 of 4 queries, as '{GERMAN}': {FEW}"]


def test_texts_and_documents_by_their_ids(index, caplog):
    ids = list(index.forward.ids.take(np.arange(3)))
    for reranker, documents in ((rp.Reranker.load("delta"), ["Statine"]), (rp.Reranker.load("bm25-text", index), ids)):
        reranker.rerank(GERMAN, documents)
        expected = [FEW] * (reranker.name == "delta")
        assert reranker.notes(GERMAN) == expected and caplog.messages == [f"'{GERMAN}': {FEW}"]


def test_models_of_first_stages(index):
    """Each of a fusion is named once; one of another package need not know of notes."""

    class Dense:
        name, filters = "dense", False

        def lacking_words(self, query):
            return ["ktrel"] if "Statine" in query.text else []

    fused = configure("bm25").open(index), Dense(), Dense()
    stage = FusedStage(index.forward, fused, FusionConfig((None,) * 3))
    scorer = rp.Reranker.load("delta", index)._scorer
    assert notes_of(Query("q", GERMAN), stage, scorer) == [FEW.replace("delta knows", "ktrel and delta know")]
    assert notes_of(Query("q", "aspirin"), stage, scorer) == notes_of(Query("q", GERMAN), fused[0], None) == []


def test_a_log_remembers_so_many(monkeypatch, caplog):
    monkeypatch.setattr("rerank_plugin.ranking.notes.MOST_TOLD", 2)
    log = NotesLog()
    for text in ("a OR b", "c", "a OR b", "d", "a OR b"):
        log.log([Query("q", text)], None, None)
    assert len(caplog.messages) == 2
