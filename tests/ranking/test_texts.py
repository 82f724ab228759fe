"""The public reranker over texts that are in no index."""

import logging
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import rerank_plugin as rp
from rerank_plugin.indexes.collection_statistics import CollectionStatistics
from rerank_plugin.indexes.text_index import TextIndex
from rerank_plugin.inputs.matches import WordMatches
from rerank_plugin.models.checkpoint import save_checkpoint, write_statistics
from rerank_plugin.rerankers import Scorer
from rerank_plugin.text.tokenizer import tokenize
from tests import small

QUERY = "stroke and cancer in women"
TEXTS = [{"title": title, "text": abstract} for _, title, abstract in small.DOCUMENTS]


@pytest.fixture(scope="module")
def delta():
    return rp.Reranker.load("delta")


@pytest.fixture
def bm25(index):
    return rp.Reranker.load("bm25-text", statistics=index)


def of_texts(scorer, index):
    """A reranker of texts under the statistics of an index."""
    return rp.Reranker(scorer, TextIndex(CollectionStatistics.of_index(index.forward)))


def plain_bm25(query, texts, index, k1=0.9, b=0.4):
    """Lucene's formula over the words of texts, by the statistics of an index."""
    count, scores = len(index), []
    for text in texts:
        words, score = tokenize(f"{text['title']} {text['text']}"), 0.0
        norm = k1 * (1 - b + b * len(words) / index.forward.mean_lengths["text"])
        for word in tokenize(query):
            row = int(index.forward.terms.find([word])[0])
            df = int(index.forward.document_frequency["text"][row]) if row >= 0 else 0
            tf = words.count(word)
            score += np.log(1 + (count - df + 0.5) / (df + 0.5)) * tf / (tf + norm)
        scores.append(score)
    return scores


def test_why_no_threshold_is_advised():
    """The example of docs/service.md: a word in common counts for more than an answer in other words."""
    texts = ["Low-dose acetylsalicylic acid lowers the risk of myocardial infarction.", "Aspirin tablets are white."]
    ranked = rp.Reranker.load("delta").rerank("does aspirin prevent heart attacks", texts)
    assert [(text.index, round(text.relevance_score, 2)) for text in ranked] == [(1, 0.89), (0, 0.29)]


def test_scores_are_those_of_the_same_documents_in_an_index(index, documents):
    texts = [{"title": one.title, "abstract": one.abstract} for one in documents]
    stored, free = rp.Reranker.load("delta", index), rp.Reranker.load("delta", statistics=index)
    first = np.linspace(9, 1, len(texts))
    expected = {
        hit.docid: hit.score for hit in stored.rerank(QUERY, [d.id for d in documents], first_stage_scores=first)
    }
    found = free.rerank(QUERY, texts, first_stage_scores=first)
    assert [one.rank for one in found] == list(range(1, len(texts) + 1))
    assert all(one.document is texts[one.index] for one in found)
    ids = [documents[one.index].id for one in found]
    np.testing.assert_allclose([one.score for one in found], [expected[id] for id in ids], atol=1e-5)


def test_markup_is_no_text_as_in_an_index(delta):
    """Scores and spelled-out texts are those of the same texts without tags and entities."""
    marked = [
        {"title": "CO<sub>2</sub> &amp; sleep", "text": "p &lt; 0.05 with <jats:italic>E. coli</jats:italic>"},
        "<p>Women with <b>breast</b> can<i>cer</i></p>",
    ]
    plain = [{"title": "CO2 & sleep", "text": "p < 0.05 with E. coli"}, "Women with breast cancer"]
    query = "co2 and breast cancer sub lt"
    ranked, expected = delta.rerank(query, marked), delta.rerank(query, plain)
    assert [(one.index, one.score) for one in ranked] == [(one.index, one.score) for one in expected]
    assert all(one.document is marked[one.index] for one in ranked)
    assert delta.explain(query, marked, 0).score == delta.explain(query, plain, 0).score


def test_first_stage_scores_are_bm25_unless_given(index):
    class FirstStage:
        name = "first-stage"

        def score(self, query, candidates):
            return candidates.first_stage_scores

    reranker = of_texts(FirstStage(), index)
    scores = {hit.index: hit.score for hit in reranker.rerank("women stroke stroke xylitol", TEXTS)}
    expected = plain_bm25("women stroke stroke xylitol", TEXTS, index)
    np.testing.assert_allclose([scores[place] for place in range(len(TEXTS))], expected, rtol=1e-5)
    assert max(expected) > 1
    hits = reranker.rerank("women", TEXTS[:3], first_stage_scores=[1, 3, 2])
    assert [(hit.index, hit.score) for hit in hits] == [(1, 3.0), (2, 2.0), (0, 1.0)]


def test_the_bundled_model_needs_nothing_else(delta):
    assert delta.index is None and delta.name == "delta"
    ranked = delta.rerank(
        "aspirin for heart attack", [text["text"] for text in TEXTS] + ["Aspirin for heart attack."], 3
    )
    assert ranked[0].index == len(TEXTS) and ranked[0].document == "Aspirin for heart attack." and len(ranked) == 3


@pytest.mark.parametrize("field", ["text", "abstract", "contents"])
def test_a_string_is_a_text_without_a_title(delta, field):
    strings = delta.rerank(QUERY, ["Stroke in women.", "Breast cancer."])
    mappings = delta.rerank(QUERY, [{field: "Stroke in women."}, {"title": None, field: "Breast cancer."}])
    assert [(text.index, text.score) for text in strings] == [(text.index, text.score) for text in mappings]
    titled = delta.rerank(QUERY, [{"title": "Stroke in women."}, {"title": "", field: "Breast cancer."}])
    assert {text.index for text in titled} == {0, 1}


def test_nothing_and_empty_texts(delta):
    assert delta.rerank(QUERY, []) == [] and delta.rerank(QUERY, [], passages=True) == []
    ranked = delta.rerank(QUERY, ["", "stroke", {"title": ""}])
    assert {text.index for text in ranked} == {0, 1, 2} and all(np.isfinite(text.score) for text in ranked)


def test_equal_scores_are_in_the_order_of_the_list(bm25):
    ranked = bm25.rerank("malaria", ["cats", "malaria", "dogs", "malaria"])
    assert [text.index for text in ranked] == [1, 3, 0, 2]


def test_the_best_passage_counts(index):
    """The model reads 5 words: the word that matters is beyond them."""

    class LastWord(Scorer):
        name, passage_words = "last-word", 5

        def score(self, query, candidates):
            assert candidates.lengths.max() <= 5
            return WordMatches(candidates.index.query(query.text), candidates).overlap("text").astype(np.float32)

    long = "filler " * 23 + "stroke"
    ranked = of_texts(LastWord(), index).rerank("stroke", ["no match", long, "short"], passages=True)
    assert [(text.index, text.score) for text in ranked] == [(1, 1.0), (0, 0.0), (2, 0.0)]


def test_a_model_reads_the_end_of_a_text_by_passages(delta):
    text = "Nothing of it. " * 20 + "Statins prevent stroke in women with breast cancer. " * 4
    (cut,), (whole,) = delta.rerank(QUERY, [text]), delta.rerank(QUERY, [text], passages=True)
    assert whole.score > cut.score
    short = "Statins prevent stroke."
    assert delta.rerank(QUERY, [short]) == delta.rerank(QUERY, [short], passages=True)


def test_threads_share_a_reranker(delta):
    alone = [delta.rerank(QUERY, TEXTS[:count]) for count in range(1, 11)]
    with ThreadPoolExecutor(8) as threads:
        rankings = list(threads.map(lambda count: delta.rerank(QUERY, TEXTS[:count]), [*range(1, 11)] * 10))
    assert rankings == alone * 10


def test_a_query_that_the_model_cannot_read_stays_in_first_stage_order(delta, caplog):
    with caplog.at_level(logging.WARNING):
        ranked = delta.rerank("???", TEXTS)
    assert [text.index for text in ranked] == list(range(len(TEXTS))) and "knows none of its words" in caplog.text


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((3, TEXTS), "a query is a text, not int"),
        ((QUERY, None), "documents to re-rank are a list, not one NoneType"),
        ((QUERY, "a text"), "documents to re-rank are a list, not one str"),
        ((QUERY, TEXTS[0]), "documents to re-rank are a list, not one dict"),
        ((QUERY, ["a", 3]), "document 1 of the list is of type int: without an index, documents are strings, or mapp"),
        ((QUERY, [{"body": "a"}]), "document 0 of the list has no title, text, abstract, contents"),
        ((QUERY, ["a", {"text": ["a"]}]), "document 1 of the list: its text is of type list, expected a text"),
        ((QUERY, TEXTS, 0), "top_k is 0: it must be at least 1"),
        ((QUERY, TEXTS, [1.0]), "top_k is [1.0]: it must be a whole number"),
        ((QUERY, ["a", "b"], None, [1.0]), "2 documents have first-stage scores of shape (1,): give one score each"),
    ],
)
def test_what_cannot_be_re_ranked(delta, arguments, message):
    with pytest.raises(rp.InputError) as error:
        delta.rerank(*arguments[:3], first_stage_scores=arguments[3] if len(arguments) > 3 else None)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "spec, options, message",
    [
        ("bm25-title", {}, "'bm25-title' keeps no statistics of a collection"),
        ("delta", {"statistics": "nowhere"}, "no index at nowhere"),
        ("delta", {"index": "nowhere", "statistics": "nowhere"}, "statistics are for texts"),
        ("nowhere", {}, "unknown reranker 'nowhere'"),
    ],
)
def test_what_cannot_be_loaded(spec, options, message):
    with pytest.raises(rp.InputError) as error:
        rp.Reranker.load(spec, **options)
    assert message in str(error.value)


def test_a_checkpoint_of_one_s_own(tmp_path, index):
    vectors = small.word_vectors(small.KNOWN_WORDS, 4, seed=1)
    save_checkpoint(tmp_path / "own", small.delta(vectors, filters=3, lexical_features=("bm25_title",)), vectors, {})
    with pytest.raises(rp.InputError, match="own keeps no statistics of its training collection"):
        rp.Reranker.load(tmp_path / "own")
    write_statistics(tmp_path / "own", small.build_index(tmp_path / "forward"))
    assert len(rp.Reranker.load(tmp_path / "own").rerank("heart attack", TEXTS)) == len(TEXTS)
    assert len(rp.Reranker.load(f"delta:{tmp_path / 'own'}").rerank("heart attack", TEXTS)) == len(TEXTS)


def test_ids_are_of_an_index_and_texts_of_none(index):
    stored = rp.Reranker.load("bm25-title", index)
    with pytest.raises(rp.InputError, match="documents of an index are ids or hits, not dict; for texts, load"):
        stored.rerank(QUERY, TEXTS)
    with pytest.raises(rp.InputError, match="passages are for texts"):
        stored.rerank(QUERY, ["B"], passages=True)
