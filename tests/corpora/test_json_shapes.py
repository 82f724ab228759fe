"""JSON in other shapes than an object a line, and the keys, dates and markup of other programs' exports."""

import json

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Problems, Query, documents, json_objects, queries

RECORDS = [{"id": f"a{i}", "title": f"T[{i}]", "text": 'a "quoted" {text}, \\ and ]'} for i in range(3)]
TEXTS = [(record["id"], record["title"], record["text"]) for record in RECORDS]
SHAPES = {
    "an array": json.dumps(RECORDS),
    "an array of several lines": json.dumps(RECORDS, indent=1),
    "an array with an object a line": "[\n" + ",\n".join(map(json.dumps, RECORDS)) + "\n]\n",
    "objects of several lines": "\n".join(json.dumps(record, indent=2) for record in RECORDS),
    "an object with the array": json.dumps({"documents": RECORDS, "count": 3}),
    "an object with the array, in several lines": json.dumps({"articles": RECORDS}, indent=1),
    "an answer of Europe PMC": json.dumps({"version": "6", "resultList": {"result": RECORDS}}, indent=1),
    "an object with other lists before the array": json.dumps({"meta": {"a": [{"x": 1}]}, "found": RECORDS}),
    "the same in a line": json.dumps({"version": "6", "resultList": {"result": RECORDS}}),
    "lines": "\n".join(map(json.dumps, RECORDS)),
}


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("buffer", [7, 1 << 18])
def test_shapes(put, monkeypatch, text, buffer):
    monkeypatch.setattr(json_objects, "BUFFER", buffer)
    for name in ("a.json", "a.jsonl.gz", "unknown"):
        problems = Problems()
        assert [document[:3] for document in documents(put(name, "\ufeff \n" + text), problems)] == TEXTS
        assert problems.total == 0


def test_a_file_for_each_object(put, tmp_path):
    for record in RECORDS:
        put(f"{record['id']}.json", json.dumps(record, indent=2))
    assert [document[:3] for document in documents(str(tmp_path))] == TEXTS


DEEP = "[" * 100_000


@pytest.mark.parametrize("deep", [DEEP + "]" * 100_000, '{"a":' * 2000 + "1" + "}" * 2000])
@pytest.mark.parametrize("array", [False, True])
def test_an_object_that_is_nested_too_deeply_is_one_problem(put, deep, array):
    lines = [json.dumps(RECORDS[0]), f'{{"id": "deep", "text": {deep}}}', json.dumps(RECORDS[1])]
    spec, problems = put("a.json", "[" + ",\n".join(lines) + "]" if array else "\n".join(lines)), Problems()
    assert [document.id for document in documents(spec, problems)] == ["a0", "a1"]
    assert problems.counts == {"bad JSON line": 1} and problems.examples["bad JSON line"][0].startswith(f"{spec}:2 ")


@pytest.mark.parametrize(
    "broken, lost",
    [('{"id": "b", "title": }', 1), ('"text"', 1), ("17", 1), ('{"id": "b" "title": "x"}', 1),
     ('{"id": "b, "title": "x"}', 1)],
)  # fmt: skip
def test_a_broken_object_of_an_array_costs_itself_only(put, broken, lost):
    problems = Problems()
    spec = put("a.json", f"[{json.dumps(RECORDS[0])},\n{broken},\n{json.dumps(RECORDS[1])}\n]")
    assert [document.id for document in documents(spec, problems)] == ["a0", "a1"]
    assert problems.counts == {"bad JSON line": lost} and problems.examples["bad JSON line"][0].startswith(f"{spec}:2 ")


def test_an_array_that_breaks_off_is_named(put):
    problems = Problems()
    spec = put("a.json", json.dumps(RECORDS)[:-40])
    assert len(list(documents(spec, problems))) == 2
    assert problems.counts == {"bad JSON line": 1} and "does not end" in problems.examples["bad JSON line"][0]


@pytest.mark.parametrize(
    "record, expected",
    [
        ({"pmid": "1", "title": "T", "abstractText": "A"}, ("1", "T", "A")),
        ({"PMID": 1, "Title": "T", "Abstract": "A"}, ("1", "T", "A")),
        ({"PMID": "1", "TI": "T", "AB": "A"}, ("1", "T", "A")),
        ({"cord_uid": "u", "article_title": "T", "Abstract_Text": "A"}, ("u", "T", "A")),
        ({"ID": "2", "id": "1", "title": "T", "TEXT": "x", "text": "A"}, ("1", "T", "A")),
        ({"id": "1", "abstract": [{"label": "AIM", "text": "A"}, {"text": "B"}, "C"]}, ("1", "", "AIM: A B C")),
        ({"doi": "10.1000/x", "title": "T"}, ("10.1000/x", "T", "")),
    ],
)
def test_keys_of_other_programs(put, record, expected):
    problems = Problems()
    [document] = documents(put("a.jsonl", json.dumps(record)), problems)
    assert document[:3] == expected and problems.total == 0


def test_a_text_under_an_unknown_key_is_named(put):
    records = [
        {"id": "1", "title": "T", "text": [], "plot": "some words here", "source": "a b c d"},
        {"id": "2", "title": "T", "abstract": "", "affiliation": "a b c d", "other": "some words here"},
        {"id": "3", "abstract": None, "plot": "some words here"},
        {"id": "4", "title": "T", "abstract": None, "fullText": "some words", "plot": "some words here"},
    ]
    spec, problems = put("a.jsonl", "\n".join(map(json.dumps, records))), Problems()
    assert [document.id for document in documents(spec, problems)] == ["1", "2", "4"]
    assert problems.examples == {
        "document with its text under an unknown key": [f"{spec}:1 (plot)", f"{spec}:2 (other)"],
        "empty document": [f"{spec}:3, keys plot (3)"],
    }


@pytest.mark.parametrize(
    "date, expected, counted",
    [
        *((date, "2015-03-02", 0) for date in ("2015/03/02", "2015/3/2", "20150302", "2 March 2015", "Mar 2nd, 2015",
                                               "02.03.2015", [2015, 3, 2], {"Year": "2015", "Month": "Mar", "Day": 2},
                                               "2015-03-02T10:00:00Z", 20150302, "2 Mar-3 Apr 2015")),
        *((date, "2015", 0) for date in (2015, 2015.0, "03/02/2015", "Winter 2015", "2015-2016")),
        ("15/03/2015", "2015-03-15", 0), ("03/15/2015", "2015-03-15", 0), ("3/2015", "2015-03", 0),
        ("2015-02-30", "2015-02", 1), ("2015-13-01", "2015", 1), ("0000-00-00", None, 1), ("soon", None, 1),
        (1425254400, None, 1), ("", None, 0), ({"$date": "2015"}, None, 1), ([None], None, 0),
    ],
)  # fmt: skip
def test_dates(put, date, expected, counted):
    problems = Problems()
    [document] = documents(put("a.jsonl", json.dumps({"id": "1", "title": "T", "pub_date": date})), problems)
    assert (document.metadata or {}).get("date") == expected
    assert problems.counts == ({"unusable metadata entry": 1} if counted else {})


def test_metadata_of_other_programs(put):
    parser = {
        "pubdate": "2016-03", "mesh_terms": "D001241:Aspirin; D020521:Stroke", "authors": "Doe|Jane|J;Roe|Ann|A",
        "medline_ta": "J Test", "publication_types": "D016428:Journal Article", "languages": "eng",
        "keywords": "a; b", "doi": "10.1000/x",
    }  # fmt: skip
    europe = {
        "firstPublicationDate": "2016-03-01", "pubYear": "2016", "authorString": "Doe J, Roe A.",
        "journalInfo": {"volume": "7", "issue": "2", "journal": {
            "title": "J Test", "isoabbreviation": "J T", "issn": "0000-1234"}}, "language": "eng",
        "pageInfo": "11-9", "pmcid": "PMC12", "chemicalList": {"chemical": [{"name": "Aspirin"}]},
        "meshHeadingList": {"meshHeading": [{"majorTopic_YN": "N", "descriptorName": "Aspirin"}]},
        "pubTypeList": {"pubType": ["Review"]}, "keywordList": {"keyword": ["a", "b"]},
    }  # fmt: skip
    records = "\n".join(json.dumps({"id": "1", "title": "T", **record}) for record in (parser, europe))
    problems = Problems()
    first, second = (document.metadata for document in documents(put("a.jsonl", records), problems))
    assert first == {
        "date": "2016-03", "mesh": ["Aspirin", "Stroke"], "authors": ["Doe J", "Roe A"], "journal": "J Test",
        "types": ["Journal Article"], "languages": ["eng"], "keywords": ["a", "b"], "doi": "10.1000/x",
        "url": "https://doi.org/10.1000/x",
    }  # fmt: skip
    assert second == {
        "date": "2016-03-01", "authors": ["Doe J", "Roe A"], "journal": "J T", "languages": ["eng"],
        "mesh": ["Aspirin"], "types": ["Review"], "keywords": ["a", "b"], "volume": "7", "issue": "2",
        "issn": "0000-1234", "full_journal_title": "J Test", "pages": "11-9", "pmc": "PMC12", "chemicals": ["Aspirin"],
    }  # fmt: skip
    assert problems.total == 0


@pytest.mark.parametrize(
    "text, expected",
    [
        ("CO<sub>2</sub> in <i>E. coli</i>", "CO2 in E. coli"),
        ("TNF-&alpha; &lt; 5, &#946;, &#x3b3;, AT&T, R&D;", "TNF-α < 5, β, γ, AT&T, R&D;"),
        ("10<sup>6</sup> cells, Ca<sup>2+</sup>", "10^6 cells, Ca2+"),
        ("&lt;i&gt;E. coli&lt;/i&gt; &amp;lt; 5", "E. coli < 5"),
        ("<jats:p>One.</jats:p><jats:p>Two.</jats:p>", "One.  Two."),
        ('<a href="x" title=y>link</a><br/>next', "link next"),
        ("p<0.05 and x>3, a <b and c> d, <unknown>", "p<0.05 and x>3, a <b and c> d, <unknown>"),
    ],
)
def test_markup_is_no_word(put, text, expected):
    [document] = documents(put("a.jsonl", json.dumps({"id": "1", "title": text, "text": text})))
    assert document[1:3] == (expected, expected)


def test_too_long_documents_are_left_out(put, monkeypatch):
    monkeypatch.setattr("rerank_plugin.corpora.problems.LONGEST", 30)
    spec = put("a.jsonl", "\n".join(json.dumps({"id": f"d{n}", "title": "T", "text": "x" * n}) for n in (29, 30, 5)))
    problems = Problems()
    assert [document.id for document in documents(spec, problems)] == ["d29", "d5"]
    assert problems.examples == {"too long document": [f"{spec}:2 (d30: 31 characters of at most 30)"]}


QUESTIONS = [{"id": "q1", "body": "Is aspirin good?", "type": "yesno"}, {"id": "q2", "body": "And statins?"}]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("wrapped", [QUESTIONS, {"questions": QUESTIONS}])
def test_questions_of_bioasq(put, indent, wrapped):
    spec = put("b.json", json.dumps(wrapped, indent=indent))
    assert queries(spec) == [Query("q1", "Is aspirin good?"), Query("q2", "And statins?")]
    assert queries(f"{spec}:type=yesno:field=type") == [Query("q1", "yesno")]
    with pytest.raises(InputError, match="query q2 has no type: name one of id, body"):
        queries(f"{spec}:field=type")


INDEX = {"content": [0], "of": [1, 5], "value": [2], "text": [3], "abstract": [4]}


@pytest.mark.parametrize(
    "record, title, text",
    [
        ({"abstract": {"BACKGROUND": "Why we did it.", "METHODS:": ["How.", "Where."], "RESULTS": None}}, "",
         "BACKGROUND: Why we did it. METHODS: How. Where."),
        ({"abstract": [{"@Label": "AIM", "#text": "To know."}, "Bare."]}, "", "AIM: To know. Bare."),
        ({"metadata": {"title": "Within"}, "abstract": [{"text": "Of CORD-19.", "section": "Abstract"}]}, "Within",
         "Of CORD-19."),
        ({"page_content": "Of LangChain.", "metadata": {"source": "a.pdf"}}, "", "Of LangChain."),
        # a word or a label may have the name of a key of texts
        ({"title": "T", "abstract": INDEX}, "T", "content of value text abstract of"),
        ({"title": "T", "abstract_inverted_index": json.dumps(INDEX)}, "T", "content of value text abstract of"),
        ({"abstract": {"abstract_inverted_index": INDEX}}, "", "content of value text abstract of"),
        ({"IndexedAbstract": {"IndexLength": 6, "InvertedIndex": INDEX}}, "", "content of value text abstract of"),
        ({"abstract": {"b": [10**15], "value": [0], "c": [], "d": None}}, "", "value b"),
        ({"abstract": {"text": [0]}}, "", "text"),
        ({"abstract_inverted_index": {"b": [1.0], "a": ["0", "2.0"]}}, "", "a b a"),
        ({"abstract": {"BACKGROUND": "Why.", "CONTENT": "None.", "SUMMARY": "All."}}, "",
         "BACKGROUND: Why. CONTENT: None. SUMMARY: All."),
        ({"abstract": {"SOURCE": "Medline.", "CONTENT": "Forty."}}, "", "SOURCE: Medline. CONTENT: Forty."),
        ({"abstract": {"CONTENT": "A.", "VALUE": "B."}}, "", "CONTENT: A. VALUE: B."),
        ({"abstract": {"OBJECTIVE": "Unknown.", "RESULTS": "None"}}, "", "OBJECTIVE: Unknown. RESULTS: None"),
        ({"abstract": {"AbstractText": ["A", "B"], "CopyrightInformation": "(c) by the authors"}}, "", "A B"),
        ({"full_text": {"sections": [{"heading": "AIM", "text": "A b."}, {"text": "C."}]}}, "", "AIM: A b. C."),
        ({"abstract": {"text": "A b.", "sentences": ["A b."], "offset": 7, "lang": "en"}}, "", "A b."),
        # a key without a text hides none
        ({"title": [None], "question": "Q?", "text": " ", "abstract": {}, "summary": [{"text": None}], "AB": "A"}, "Q?",
         "A"),
        ({"title": "T", "abstract": None, "tldr": {"model": "m", "text": "Short."}}, "T", "Short."),
        ({"title": "T", "abstract": "null", "full_text": "Full."}, "T", "Full."),
        ({"title": "T", "abstract": {}, "pdf_json": {"paper_id": "x", "abstract": [], "body_text": [
            {"text": "Body.", "section": "S", "cite_spans": [{"text": "[1]"}]}], "bib_entries": {"b": {"title": "N"}}}},
         "T", "Body."),
        # contents that begin with the title
        *(({"title": "T of two words", "contents": f"T of two words{end}"}, "T of two words", "It is so.") for end in
          (". It is so.", "\nIt is so.", " - It is so.", ": It is so.", " It is so.", " | It is so.")),
        ({"title": "Is it?", "contents": "Is it? It is."}, "Is it?", "It is."),
        ({"title": "T of two words", "contents": "T of two words is it."}, "T of two words", "T of two words is it."),
        ({"title": "T", "contents": "T. Text", "content": "Text"}, "T", "Text"),
        ({"title": "T", "abstract": "T. Text"}, "T", "T. Text"),
    ],
)  # fmt: skip
def test_objects_that_hold_texts(put, record, title, text):
    problems = Problems()
    [document] = documents(put("a.jsonl", json.dumps({"id": "1", **record})), problems)
    assert document[:3] == ("1", title, text) and problems.total == 0


@pytest.mark.parametrize("inside", [{"abstract": "A text that nobody reads."}, [{"p": "A text that nobody reads."}]])
def test_a_text_inside_an_unknown_object_is_told(put, inside):
    problems = Problems()
    spec = put("a.jsonl", json.dumps({"id": "1", "title": "T", "sections": inside}))
    assert [document.abstract for document in documents(spec, problems)] == [""]
    assert problems.examples == {"document with its text under an unknown key": [f"{spec}:1 (sections)"]}


def test_a_part_that_is_no_text_costs_itself_only(put):
    records = [
        {"id": "1", "title": "T", "abstract": ["A", True, {"x": 5}, "B"]},
        {"id": "2", "title": "T", "text": 1e3},
    ]
    spec, problems = put("a.jsonl", "\n".join(map(json.dumps, records))), Problems()
    assert [document.abstract for document in documents(spec, problems)] == ["A B", "1000.0"]
    assert problems.examples == {"unreadable part of a text": [
        f"{spec}:1 (expected a text, found bool)", f"{spec}:1 (expected a text, found an object of x)"]}  # fmt: skip
    assert len(problems.summary(kept=True)) == 1


@pytest.mark.parametrize(
    "record, id",
    [
        ({"pmid": 31000001.0}, "31000001"), ({"_id": 3.1000001e7}, "31000001"), ({"id": "31000001.0"}, "31000001"),
        ({"pmid": "7.0"}, "7"), ({"PMID": "3.1000001e7"}, "31000001"), ({"id": [], "docid": "nan", "pmid": 7}, "7"),
        ({"id": "1.0"}, "1.0"), ({"id": "3e8"}, "3e8"), ({"doi": "10.1000/12345.0"}, "10.1000/12345.0"),
        ({"id": "12345.10"}, "12345.10"),
    ],
)  # fmt: skip
def test_whole_numbers_as_ids(put, record, id):
    spec = put("a.jsonl", json.dumps({**record, "title": "T"}))
    assert [document.id for document in documents(spec)] == [id]
    assert "pmid" not in {key.lower() for key in record} or next(documents(spec)).metadata["url"].endswith(f"/{id}/")


def hit(id, source):
    return {"_index": "p", "_id": id, "_score": 1.0, "_source": source}


RECORD = {"QUESTION": "Q?", "CONTEXTS": ["One.", "Two."], "LABELS": ["AIM", "RESULTS"], "YEAR": "2011"}


@pytest.mark.parametrize(
    "texts, expected",
    [
        ([{"took": 1, "hits": {"total": {"value": 1}, "hits": [hit("1", {"title": "T"}), hit("2", {"title": "U"})]}}],
         {"1": "T", "2": "U"}),
        ([hit("1", {"title": "T"}), hit("x", {"pmid": 2, "title": "U"}), hit("3", {"doi": "10.1000/x", "title": "V"})],
         {"1": "T", "2": "U", "3": "V"}),
        ([[hit("1", {"title": "T"})]], {"1": "T"}),
        ([{"index": {"_index": "p", "_id": "1"}}, {"title": "T"}, {"create": {"_id": 2}}, {"title": "U"},
          {"index": {}}, {"id": "3", "title": "V"}, {"update": {"_id": "4"}}, {"doc": {"title": "W"}}],
         {"1": "T", "2": "U", "3": "V", "4": "W"}),
        ([{"310": RECORD, "311": RECORD}], {"310": "Q?", "311": "Q?"}),
        ([{"310": RECORD}, {"311": RECORD}], {"310": "Q?", "311": "Q?"}),
        ([{"train": {"1": RECORD}, "test": {"2": RECORD}}], {"1": "Q?", "2": "Q?"}),
        ([{"medqa": {"0000": RECORD}, "mmlu": {"0000": RECORD}}], {"medqa:0000": "Q?", "mmlu:0000": "Q?"}),
        ([{"header": {"type": "esummary"}, "result": {"uids": ["1"], "1": {"uid": "1", "title": "T"}}}], {"1": "T"}),
        ([{"status": "ok", "message": {"DOI": "10.1000/x", "title": ["T"]}}], {"10.1000/x": "T"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("indent", [None, 1])
def test_records_inside_objects(put, monkeypatch, texts, expected, indent):
    spec, problems = put("a.json", "\n".join(json.dumps(text, indent=indent) for text in texts)), Problems()
    assert {document.id: document.title for document in documents(spec, problems)} == expected and not problems.total
    if "310" in expected:
        assert queries(spec) == [Query("310", "Q?"), Query("311", "Q?")]
        monkeypatch.setattr(json_objects, "LONGEST", 160)  # one by one, if all are too long
        monkeypatch.setattr(json_objects, "BUFFER", 50)
        assert {document.id: document.title for document in documents(spec, problems)} == expected


def test_a_source_with_unknown_keys_is_named(put):
    problems = Problems()
    assert not list(documents(put("a.jsonl", json.dumps(hit("1", {"plot": "some words here"}))), problems))
    assert "keys plot" in problems.examples["empty document"][0]
