"""Real Lucene against plain Python over the words that its own analyzer gives; ties at the cut; text as it is typed."""

import json
import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import rerank_plugin as rp
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.corpora import Document
from rerank_plugin.files.checksums import sealed
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.java.jvm import java_class
from rerank_plugin.retrieval.lucene import LUCENE_FIELDS, NAMES, LuceneConfig
from tests.processes import run

QUERIES = (
    "aspirin and the prevention of heart attack",
    "aspirin aspirin stroke",
    "risk of breast cancer in women",
    "vaccines protecting children",
    "β-catenin signalling",
    "twins share words",
    "diabetes insulin renal failure",
    "PM2.5 1999 2103",
    "糖尿病",
)


def analyzed(text):
    """Lucene's words of a text: lower-cased, stemmed, without stop words."""
    analyzer = java_class("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()
    words = java_class("io.anserini.analysis.AnalyzerUtils").analyze(analyzer, text)
    return [words.get(place) for place in range(words.size())]


@pytest.fixture(scope="module")
def fields(documents):
    """{field: Lucene's words by document id}. Lucene keeps lengths below 40 exactly; longer ones it rounds."""
    parts = {
        "title": {document.id: analyzed(document.title) for document in documents},
        "abstract": {document.id: analyzed(document.abstract) for document in documents},
        "contents": {document.id: analyzed(f"{document.title} {document.abstract}") for document in documents},
    }
    assert all(len(words) < 40 for part in parts.values() for words in part.values())
    return parts


def statistics(texts, word):
    """Documents with the field, documents with the word, the word's occurrences, and all words."""
    holding = sum(word in words for words in texts.values())
    occurrences = sum(words.count(word) for words in texts.values())
    return sum(map(bool, texts.values())), holding, occurrences, sum(map(len, texts.values()))


def plain_bm25(texts, query, k1, b):
    """Lucene's BM25: idf tf / (tf + k1 (1 - b + b length / mean)), over documents that have the field."""
    scores = {}
    for word, repeats in Counter(query).items():
        having, holding, _, total = statistics(texts, word)
        idf = math.log(1 + (having - holding + 0.5) / (holding + 0.5))
        for id, words in texts.items():
            if word in words:
                tf = words.count(word)
                norm = k1 * (1 - b + b * len(words) / (total / having))
                scores[id] = scores.get(id, 0.0) + repeats * idf * tf / (tf + norm)
    return scores


def plain_likelihood(texts, query, mu):
    """Lucene's Dirichlet-smoothed query likelihood: ln(1 + tf / (mu p)) + ln(mu / (length + mu)), at least 0 a word,
    where p = (occurrences + 1) / (all words + 1)."""
    scores = {}
    for word, repeats in Counter(query).items():
        _, _, occurrences, total = statistics(texts, word)
        p = (occurrences + 1) / (total + 1)
        for id, words in texts.items():
            if word in words:
                score = math.log(1 + words.count(word) / (mu * p)) + math.log(mu / (len(words) + mu))
                scores[id] = scores.get(id, 0.0) + repeats * max(score, 0.0)
    return scores


def scored(candidates):
    return dict(zip(candidates.ids, candidates.first_stage_scores.tolist()))


def search(index, text, depth=100, **settings):
    return index.first_stage(LuceneConfig(**settings)).search(Query("q", text), depth)


@pytest.mark.parametrize("field", LUCENE_FIELDS)
@pytest.mark.parametrize("k1, b", [(0.9, 0.4), (2.0, 0.75), (1.2, 0.0), (0.0, 0.5)])
def test_bm25_of_every_document(index, fields, field, k1, b):
    first_stage = index.first_stage(LuceneConfig(field=field, k1=k1, b=b))
    for text in QUERIES:
        expected = plain_bm25(fields[field], analyzed(text), k1, b)
        assert scored(first_stage.search(Query("q", text), 100)) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("field", LUCENE_FIELDS)
@pytest.mark.parametrize("mu", [1000.0, 10.0])
def test_query_likelihood_of_every_document(index, fields, field, mu):
    first_stage = index.first_stage(LuceneConfig("qld", field, mu=mu))
    for text in QUERIES:
        expected = plain_likelihood(fields[field], analyzed(text), mu)
        scores = scored(first_stage.search(Query("q", text), 100))
        assert scores.keys() == expected.keys()
        assert scores == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    "written, asked",
    [
        ("Sjögren’s syndrome", ["Sjogren", "SJÖGREN", "Sjo\u0308gren", "sjo\u00adgren"]),
        ("Sjogren syndrome", ["Sjögren", "Sjo\u0308gren’s"]),
        ("TNF-α blockade", ["alpha", "α", "TNF-alpha", "Α"]),
        ("TNF-alpha blockade", ["α", "TNF-α"]),
        ("hyper\u00adtension zero\u200bwidth", ["hypertension", "zerowidth", "hyper\u00adtension"]),
        ("Tromsø, Łódź", ["Tromso", "Lodz", "Tromsø"]),
        ("ﬁbrosis H₂O YUTIQ™", ["fibrosis", "H2O", "yutiq"]),
        ("고혈압", ["고혈압", "\u1100\u1169혈압"]),
    ],
)
def test_a_word_meets_its_plain_spelling(tmp_path, written, asked):
    index = rp.build_index([Document("a", written, ""), Document("b", "another text", "")], tmp_path / "index")
    for name in NAMES:
        assert [search(index, text, name=name).ids for text in asked] == [["a"]] * len(asked), name
    with rp.Searcher(index) as searcher:
        assert searcher.doc("a").get("title") == written


def test_an_index_of_an_older_version_is_searched_as_it_was_built_and_told_apart(tmp_path, monkeypatch, caplog):
    from rerank_plugin.indexes import lucene_writer

    monkeypatch.setattr(lucene_writer, "analyzable", lambda text: text)
    rp.build_index([Document("a", "Sjögren’s syndrome", "TNF-α")], tmp_path / "index")
    description = json.loads((tmp_path / "index" / "index.json").read_text(encoding="utf-8"))
    assert description.pop("normalization") == description["lucene"].pop("normalization") == 1
    del description["checksum"]
    (tmp_path / "index" / "index.json").write_text(json.dumps(sealed(description)), encoding="utf-8")
    index = rp.Index(tmp_path / "index")
    assert [len(search(index, text)) for text in ("Sjögren", "Sjogren", "α", "alpha")] == [1, 0, 1, 0]
    (record,) = caplog.records
    assert "index was built by an older version" in record.getMessage() and index.rebuild in record.getMessage()


@pytest.mark.parametrize("name", NAMES)
def test_scores_and_ids_come_in_order(index, name):
    candidates = search(index, "aspirin stroke cancer vaccines twins", 10_000, name=name)
    assert len(candidates) > 15
    pairs = list(zip(candidates.first_stage_scores.tolist(), (id.encode() for id in candidates.ids)))
    assert pairs == sorted(pairs, reverse=True)


NOTHING = ("", " \t\n", "the of and in to", "!?…", "xylitolxyz", "AND OR NOT")
TYPED = (
    'aspirin AND "stroke', "aspirin OR (stroke", "aspirin ] [ stroke } {", "+aspirin -stroke !", "aspirin / stroke /",
    "aspirin~ stroke^", "*aspirin* ?stroke?", "NOT aspirin && stroke || \\", "aspirin : stroke",
    "\x00aspirin\x07 stroke",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_query_syntax_is_only_text(index, name):
    first_stage = index.first_stage(LuceneConfig(name))
    plain = first_stage.search(Query("q", "aspirin stroke"), 50)
    assert len(plain) > 5
    for text in TYPED:
        candidates = first_stage.search(Query("q", text), 50)
        assert candidates.ids == plain.ids, text
        np.testing.assert_allclose(candidates.first_stage_scores, plain.first_stage_scores, rtol=1e-6)
    for text in NOTHING:
        assert first_stage.search(Query("q", text), 10).ids == [], text


MALARIA = {"doc_with_a_rather_long_identifier_0001", "doc_with_a_rather_long_identifier_0002"}
MARKS = "aspirn stoke:\"()[]{}/\\*?~^+-!&|<>=.'\x00 \n"


@given(st.text(st.sampled_from(MARKS) | st.characters(codec="utf-8"), max_size=20))
@example('content:aspirin title:"a')
@example("aspirin^^2 [a TO b]")
def test_no_text_is_a_bad_query(index, text):
    assert set(search(index, f"{text} malaria", 50).ids) >= MALARIA


@pytest.mark.parametrize("name", NAMES)
def test_half_a_character_and_very_many_words(index, name):
    """What a terminal passes on that is not UTF-8 arrives as half a surrogate pair."""
    text = " ".join(f"word{number}" for number in range(5000)) + " malaria \udcff"
    assert set(search(index, text, 2, name=name).ids) == MALARIA


def test_rm3_brings_words_of_the_best_documents(tmp_path):
    """Anserini's RM3 takes no word that stands in more than a tenth of the documents, so there must be some."""
    filler = [Document(f"f{number}", f"filler{number}", "") for number in range(60)]
    relevant = [Document("r1", "heart", "aspirin"), Document("r2", "heart", "aspirin"), Document("r3", "", "aspirin")]
    index = rp.build_index(filler + relevant, tmp_path / "index")
    assert search(index, "heart").ids == ["r2", "r1"]
    assert search(index, "heart", name="bm25+rm3").ids == ["r2", "r1", "r3"]


def test_rm3_changes_scores_and_finds_at_least_what_bm25_finds(index):
    for text in ("migraine", "malaria", "statins"):
        by_bm25, by_rm3 = search(index, text), search(index, text, name="bm25+rm3")
        assert set(by_bm25.ids) <= set(by_rm3.ids)
        assert not np.allclose([scored(by_rm3)[id] for id in by_bm25.ids], by_bm25.first_stage_scores)
        assert np.isfinite(by_rm3.first_stage_scores).all()


def test_rm3_from_what_another_search_found(index):
    """From BM25's own best ten, and where query and expansion weigh the same, it is RM3 as Anserini has it."""
    bm25 = index.first_stage(LuceneConfig())
    for text in QUERIES[:6]:
        feedback, words = bm25.search(Query("q", text), 10), len(analyzed(text))
        found = bm25.search_near(Query("q", text), feedback, terms=10, even=words, depth=50)
        assert scored(found) == scored(search(index, text, 50, name="bm25+rm3"))
    others = Candidates(index.forward, feedback.rows[-2:][::-1], np.array([1.0, 0.5]))
    for even, same in ((1, False), (1e-9, True)):  # all weight on the query: BM25's scores, divided by its words
        found = scored(bm25.search_near(Query("q", text), others, terms=10, even=even, depth=50))
        expected = feedback.first_stage_scores / len(analyzed(text))
        assert np.allclose([found[id] for id in feedback.ids], expected, rtol=1e-5) == same
    for none in (Candidates(index.forward, [], []), Candidates(index.forward, feedback.rows, 0 * expected)):
        assert not len(bm25.search_near(Query("q", text), none, 10, 2, 50))
    assert not len(bm25.search_near(Query("q", "the of"), feedback, 10, 2, 50))


def test_rm3_per_field_and_after_each_other(index):
    for field in LUCENE_FIELDS:
        first_stage = index.first_stage(LuceneConfig("bm25+rm3", field, rm3_terms=5, rm3_documents=3))
        first = scored(first_stage.search(Query("q", "stroke"), 20))
        first_stage.search(Query("q", "malaria"), 20)
        assert scored(first_stage.search(Query("q", "stroke"), 20)) == first and first


@pytest.mark.parametrize("name", NAMES)
def test_two_threads_at_once_find_what_one_finds(index, name):
    first_stage = index.first_stage(LuceneConfig(name))
    alone = [scored(first_stage.search(Query("q", text), 30)) for text in QUERIES]
    with ThreadPoolExecutor(2) as executor:
        for _ in range(5):
            together = executor.map(lambda text: scored(first_stage.search(Query("q", text), 30)), QUERIES)
            assert list(together) == alone


def test_threads_whose_searches_are_the_first_of_the_process_find_what_one_finds(index, index_folder):
    """Six of them share three first stages, and two open their own. Python gives them turns as often as it can."""
    found = run("-c", f"""if True:
        import json, sys, threading
        from concurrent.futures import ThreadPoolExecutor
        from rerank_plugin.base.records import Query
        from rerank_plugin.indexes.index_folder import Index
        from rerank_plugin.retrieval.lucene import NAMES, LuceneConfig

        sys.setswitchinterval(1e-6)
        index, together = Index({str(index_folder)!r}), threading.Barrier(8)
        stages = [index.first_stage(LuceneConfig(name)) for name in NAMES]

        def search(thread):
            together.wait()
            stage = stages[thread % 3] if thread < 6 else index.first_stage(LuceneConfig(NAMES[thread % 3]))
            found = [stage.search(Query("q", text), 30) for text in {QUERIES!r}]
            return [[one.ids, one.first_stage_scores.tolist()] for one in found]

        with ThreadPoolExecutor(8) as threads:
            print(json.dumps(list(threads.map(search, range(8)))))
    """)  # fmt: skip
    stages = [index.first_stage(LuceneConfig(name)) for name in NAMES]
    alone = [[scored(stage.search(Query("q", text), 30)) for text in QUERIES] for stage in stages]
    for thread, answers in enumerate(json.loads(found)):
        assert [dict(zip(*answer)) for answer in answers] == alone[thread % 3]


def test_two_first_stages_over_one_index_do_not_disturb_each_other(index):
    bm25 = index.first_stage(LuceneConfig())
    before = scored(bm25.search(Query("q", "stroke"), 20))
    qld = index.first_stage(LuceneConfig("qld", "title"))
    assert scored(qld.search(Query("q", "stroke"), 20)) != before
    qld.close()
    assert scored(bm25.search(Query("q", "stroke"), 20)) == before


# 240 documents in groups that tie: 150 twins under ids of every length, 60 of another kind, 30 that say the word twice.
TIED = (
    [Document(str(7**number % 100_003), "twin", "same words here") for number in range(1, 151)]
    + [Document(f"m{number}", "twin", "same words here and there also") for number in range(60)]
    + [Document(f"Z{number}", "twin twin", "words here") for number in range(30)]
)


@pytest.fixture(scope="module")
def tied(tmp_path_factory):
    index = rp.build_index(TIED, tmp_path_factory.mktemp("tied") / "index")
    assert len(index) == len(TIED)
    return index


@pytest.mark.parametrize("name", ["bm25", "qld"])
def test_the_cut_within_a_group_of_ties_keeps_the_highest_ids(tied, name):
    """By their titles the documents fall into two groups of one score each; qld gives both the same."""
    first_stage = tied.first_stage(LuceneConfig(name, field="title"))
    whole = scored(first_stage.search(Query("q", "twin"), 500))
    assert len(whole) == 240 and len(set(whole.values())) == {"bm25": 2, "qld": 1}[name]
    for depth in (1, 2, 29, 30, 31, 100, 179, 180, 181, 239, 240, 241, 1000):
        candidates = first_stage.search(Query("q", "twin"), depth)
        assert candidates.ids == sorted(whole, key=lambda id: (whole[id], id), reverse=True)[:depth]
        assert scored(candidates) == {id: whole[id] for id in candidates.ids}


def test_the_cut_by_the_contents(tied):
    """Contents: three groups, twice in the fewest words first, then by length. k1 = 0 makes every score the IDF."""
    groups = [TIED[210:], TIED[:150], TIED[150:210]]
    in_order = [id for group in groups for id in sorted((document.id for document in group), reverse=True)]
    first_stage, constant = (tied.first_stage(LuceneConfig(k1=k1)) for k1 in (0.9, 0.0))
    for depth in (1, 10, 30, 75, 150, 180, 200, 240):
        assert first_stage.search(Query("q", "twin"), depth).ids == in_order[:depth]
        assert constant.search(Query("q", "twin"), depth).ids == sorted(in_order, reverse=True)[:depth]


@pytest.mark.parametrize(
    "said, wrong",
    [
        ("unknown first stage 'bm26'; known: bm25, qld, bm25[+]rm3", {"name": "bm26"}),
        ("unknown first stage ''", {"name": ""}),
        ("unknown field 'body'; known: contents, title, abstract", {"field": "body"}),
        ("k1 is 10000000.0: it must be at least 0 and at most 1,000,000", {"k1": 1e7}),
        ("mu is inf: it must be finite and above 0", {"mu": math.inf}),
        ("rm3_terms is 100000000000: it must be at least 1 and at most 1,000", {"rm3_terms": 10**11}),
    ],
)
def test_settings_are_refused_by_name(said, wrong):
    with pytest.raises(InputError, match=said):
        LuceneConfig(**wrong)


def test_settings_at_their_limits_are_taken(index):
    for allowed in ({"k1": 0.0, "b": 0.0}, {"b": 1.0}, {"rm3_weight": 0.0}, {"rm3_weight": 1.0}, {"mu": 1e-3}):
        for name in NAMES:
            candidates = search(index, "stroke migraine", 10, name=name, **allowed)
            assert len(candidates) and np.isfinite(candidates.first_stage_scores).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("depth", [2**31 - 1, 10**30])
def test_a_depth_beyond_java_s_numbers_gives_all_that_match(tied, name, depth):
    everything = search(tied, "twin", 10**6, name=name)
    assert scored(search(tied, "twin", depth, name=name)) == scored(everything) and len(everything)


@pytest.mark.parametrize("name", NAMES)
def test_a_query_of_too_many_words_is_named(index, name):
    with pytest.raises(InputError, match="query q has more than 65,536 different words, the most that Lucene takes"):
        search(index, " ".join(f"w{number}" for number in range(70_000)), name=name)
