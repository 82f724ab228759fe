"""Formats in which databases and corpora are exchanged: documents with their metadata, and what is counted."""

import gzip

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Document, Problems, documents, judgments, queries

PUBMED = "https://pubmed.ncbi.nlm.nih.gov/{}/".format
RIS = """\
1.
TY  - JOUR
AN  - 31000001
DB  - PubMed
TI  - Statins and
muscle pain
AB  - Pain was frequent.
AU  - Doe, J
AU  - Roe, A
PY  - 2019/03/02/
JO  - Test J
DO  - https://doi.org/10.1000/x1
LA  - eng
KW  - pain
VL  - 12
IS  - 3
SP  - 45
EP  - 50
SN  - 0000-1234
T2  - The journal of tests
AD  - Clinic, Town.
ER  -\x20

TY  - CPAPER
ID  - 12
T1  - Not closed: caf\udce9
N2  - Kept.
TY  - JOUR
TI  - No number
ER  -
"""
ENDNOTE = """\
<?xml version="1.0" encoding="UTF-8"?><xml><records>
<record><rec-number>7</rec-number><ref-type name="Journal Article">17</ref-type>
<contributors><authors><author><style face="normal">Doe, J.</style></author></authors></contributors>
<titles><title><style>Statins </style><style face="italic">in vivo</style></title>
<secondary-title>Test J</secondary-title></titles><keywords><keyword>pain</keyword></keywords>
<dates><year>2019</year><pub-dates><date>Mar 2</date></pub-dates></dates><accession-num>31000001</accession-num>
<abstract>Pain.</abstract><electronic-resource-num>10.1000/x1</electronic-resource-num>
<volume>7</volume><number>2</number><pages>11-9</pages><isbn>0000-1234</isbn><auth-address>Clinic.</auth-address>
<remote-database-name>MEDLINE</remote-database-name><language>eng</language></record>
<record><rec-number>8</rec-number><titles><title>Damaged &foo; </title></titles></record>
<record><rec-number>9</rec-number><titles><title>Whole</title></titles></record></records></xml>
"""
FRONT = """<front><journal-meta><journal-id journal-id-type="iso-abbrev">Test J</journal-id></journal-meta>
<article-meta><article-id pub-id-type="pmc">123</article-id><article-id pub-id-type="doi">10.1000/x1</article-id>%s
<title-group><article-title>Statins and CO<sub>2</sub></article-title></title-group><contrib-group>
<contrib contrib-type="author"><name><surname>Doe</surname><given-names>Jane A.</given-names></name></contrib>
<contrib contrib-type="editor"><name><surname>Roe</surname></name></contrib></contrib-group>
<pub-date pub-type="epub"><day>2</day><month>3</month><year>2019</year></pub-date>%s</article-meta></front>"""
ABSTRACTS = """<abstract abstract-type="graphical"><p>Picture</p></abstract><abstract><title>Abstract</title>
<sec><title>Methods</title><p>We <italic>looked</italic>.</p></sec><sec><title>Results:</title><p>Pain.</p></sec>
</abstract><kwd-group><kwd>pain</kwd></kwd-group>"""
JATS = f"""<?xml version="1.0"?><!DOCTYPE pmc-articleset PUBLIC "-//x//DTD" "x.dtd"><pmc-articleset>
<article xmlns:xlink="http://www.w3.org/1999/xlink" article-type="research-article" xml:lang="en">
{FRONT % ('<article-id pub-id-type="pmid">31000001</article-id>', ABSTRACTS)}</article>
<article xmlns="https://jats.nlm.nih.gov/ns/archiving/1.3/">{FRONT % ("", "")}
<body><sec><title>Case</title><p>A man.</p><p>He lived.</p></sec></body></article></pmc-articleset>"""
JATS_METADATA = {
    "date": "2019-03-02", "journal": "Test J", "authors": ["Doe JA"], "doi": "10.1000/x1",
}  # fmt: skip
BIOC = """<?xml version="1.0"?><!DOCTYPE collection SYSTEM "BioC.dtd"><collection><source>x</source><document><id>5</id>
<passage><infon key="type">title</infon><text>Statins</text><annotation id="1"><text>S</text></annotation></passage>
<passage><infon key="type">abstract</infon><sentence><text>One.</text></sentence><sentence><text>Two.</text></sentence>
</passage></document><document><id>6</id><passage><text>First</text></passage><passage><text>Second.</text></passage>
</document></collection>"""
TRIAL = """<clinical_study><!-- x --><id_info><nct_id>NCT00000001</nct_id></id_info>
<brief_title>Statins in pain</brief_title><brief_summary><textblock>
   We test.
</textblock></brief_summary><study_type>Interventional</study_type><condition>Pain</condition><condition>Ache</condition>
<intervention><intervention_name>Simvastatin</intervention_name></intervention>
<study_first_posted type="Actual">March 2, 2019</study_first_posted><keyword>statin</keyword>
<condition_browse><mesh_term>Pain</mesh_term></condition_browse></clinical_study>"""
PUBTATOR = """\
31000001|t|Statins | pain
31000001|a|Pain was frequent.
31000001\t0\t7\tStatins\tChemical\tD1

nonsense
2|t|Two
3|t|Three
"""
TREC = """\
<DOC>
<DOCNO> FR94-1 </DOCNO>
<HEADLINE>A &amp; B</HEADLINE>
<TEXT>
<!-- PJG x -->Hello <P>p < 3</P> x
</TEXT>
</DOC>
<DOC><DOCNO>2</DOCNO>No element. caf\udce9</DOC><DOC>
<DOCNO>3</DOCNO>
<doc><DOCNO>4</DOCNO><TITLE>Four</TITLE><ABSTRACT>Text.</ABSTRACT></doc>"""
CORD19 = """\
﻿cord_uid,sha,source_x,title,doi,pubmed_id,abstract,publish_time,authors,journal,is_retracted
ug7v899j,d1,PMC,Clinical features,10.1186/x1,11472636.0,"OBJECTIVE: One, ""two"",

three.",2001-07-04,"Doe, Jane; Roe, Al",BMC,False
x1,,,Too few columns
x2,,,"A quote without an end,10.1186/x2,5,Lost.,2001,,,
x3,,,Third,,,,,,,
x4,,,,,,,,,,
"""
SCOPUS = """\
"Authors";"Title";"Year";"Source title";"DOI";"Abstract";"Author Keywords";"Document Type";"PubMed ID";"EID"
"Doe J.A., Roe A.";"Statins";"2019";"Test J";"10.1000/x1";"Pain.";"pain; statin";"Article";"";"2-s2.0-85"
"""
PUBMED_CSV = """\
PMID,Title,Authors,Citation,First Author,Journal/Book,Publication Year,Create Date,PMCID,NIHMS ID,DOI
31000001,Statins,"Doe JA, Roe A.",Test J. 2019,Doe JA,Test J,2019,2019/03/02,PMC1,,10.1000/x1
"""
PUBTATOR3 = """{"PubTator3": [
{"_id": "31000001|None", "id": "31000001", "pmid": 31000001, "date": "2019-03-02T00:00:00Z",
"passages": [{"infons": {"type": "title"}, "text": "Statins", "annotations": [{"text": "S"}]},
{"infons": {"type": "abstract"}, "text": "Pain."}]},
{"id": "7", "passages": [{"infons": {"section_type": "TITLE", "article-id_pmid": "8", "year": "2018",
"name_0": "surname:Doe;given-names:Jane"}, "text": "Full"}, {"infons": {"section_type": "INTRO", "type": "title"},
"text": "Intro"}, {"infons": {"section_type": "REF", "type": "abstract"}, "text": "Cited"}]},
{"id": "9", "passages": "none"}]}"""
STUDIES = """{"studies": [{"protocolSection": {"identificationModule": {"nctId": "NCT00000001",
"briefTitle": "Statins in pain", "secondaryIdInfos": [{"id": "x", "type": "y"}]}, "statusModule":
{"studyFirstPostDateStruct": {"date": "2019-03-02"}}, "descriptionModule": {"briefSummary": "We test."},
"conditionsModule": {"conditions": ["Pain", "Ache"], "keywords": ["statin"]}, "armsInterventionsModule":
{"interventions": [{"type": "DRUG", "name": "Simvastatin"}]}, "designModule": {"studyType": "Interventional"}},
"derivedSection": {"conditionBrowseModule": {"meshes": [{"id": "D1", "term": "Pain"}]}}}], "nextPageToken": "x"}"""
STUDY = Document(
    "NCT00000001", "Statins in pain", "We test. CONDITIONS: Pain, Ache. INTERVENTIONS: Simvastatin.", {
        "date": "2019-03-02", "types": ["Interventional"], "keywords": ["statin"], "mesh": ["Pain"],
        "url": "https://clinicaltrials.gov/study/NCT00000001"},
)  # fmt: skip
CASES = {
    "CSV of CORD-19, damaged": ("a.csv", CORD19, [
        Document("11472636", "Clinical features", 'OBJECTIVE: One, "two",\n\nthree.', {
            "date": "2001-07-04", "journal": "BMC", "authors": ["Doe, Jane", "Roe, Al"], "retracted": False,
            "doi": "10.1186/x1", "url": PUBMED(11472636)}),
        Document("x3", "Third", ""),
    ], {"bad CSV row": ["a.csv:5 (4 columns, where the header has 11)", "a.csv:6 (a quote does not end)"],
        "empty document": ["a.csv:8 (x4)"]}),
    "CSV of Scopus": ("a.csv", SCOPUS, [
        Document("2-s2.0-85", "Statins", "Pain.", {
            "date": "2019", "journal": "Test J", "authors": ["Doe J.A.", "Roe A"], "keywords": ["pain", "statin"],
            "types": ["Article"], "doi": "10.1000/x1", "url": "https://doi.org/10.1000/x1"}),
    ], {}),
    "CSV of PubMed": ("a.csv", PUBMED_CSV, [
        Document("31000001", "Statins", "", {
            "date": "2019", "journal": "Test J", "authors": ["Doe JA", "Roe A"], "doi": "10.1000/x1",
            "url": PUBMED(31000001), "entry_date": "2019-03-02", "create_date": "2019-03-02", "pmc": "PMC1"}),
    ], {}),
    "TSV with a header": ("a.tsv", "record_id\ttitle\tabstract\tlabel_included\n1\tOne\t\t0\n2\t\tTwo\t\n", [
        Document("1", "One", ""), Document("2", "", "Two")], {}),
    "BioC JSON": ("a.json", PUBTATOR3, [
        Document("31000001", "Statins", "Pain.", {"date": "2019-03-02", "url": PUBMED(31000001)}),
        Document("8", "Full", "Intro", {"date": "2018", "authors": ["Doe J"], "url": PUBMED(8)}),
    ], {"bad JSON line": ["a.json:1 (passages: expected a list of objects)"]}),
    "ClinicalTrials.gov JSON": ("a.json", STUDIES, [STUDY], {}),
    "RIS": ("a.ris", RIS, [
        Document("31000001", "Statins and muscle pain", "Pain was frequent.", {
            "date": "2019-03-02", "journal": "Test J", "authors": ["Doe J", "Roe A"], "types": ["Journal Article"],
            "languages": ["eng"], "keywords": ["pain"], "doi": "10.1000/x1", "url": PUBMED(31000001),
            "volume": "12", "issue": "3", "pages": "45-50", "issn": "0000-1234", "affiliation": "Clinic, Town.",
            "full_journal_title": "The journal of tests"}),
        Document("12", "Not closed: café", "Kept.", {"types": ["Conference paper"]}),
    ], {"missing id": ["a.ris:28"], "file of another encoding than UTF-8": ["a.ris (read as cp1252)"]}),
    "EndNote XML": ("a.xml", ENDNOTE, [
        Document("31000001", "Statins in vivo", "Pain.", {
            "date": "2019-03-02", "journal": "Test J", "authors": ["Doe J"], "types": ["Journal Article"],
            "languages": ["eng"], "keywords": ["pain"], "doi": "10.1000/x1", "url": PUBMED(31000001),
            "volume": "7", "issue": "2", "pages": "11-9", "issn": "0000-1234", "affiliation": "Clinic."}),
        Document("9", "Whole", "", None),
    ], {"malformed XML": ["a.xml:10 (Entity 'foo' not defined)"]}),
    "JATS": ("a.nxml", JATS, [
        Document("31000001", "Statins and CO2", "Methods: We looked. Results: Pain.", JATS_METADATA | {
            "types": ["research-article"], "languages": ["en"], "keywords": ["pain"], "url": PUBMED(31000001),
            "pmc": "PMC123"}),
        Document("PMC123", "Statins and CO2", "A man. He lived.", JATS_METADATA | {
            "pmc": "PMC123", "url": "https://doi.org/10.1000/x1"}),
    ], {}),
    "BioC XML": ("a.xml", BIOC, [Document("5", "Statins", "One. Two."), Document("6", "First", "Second.")], {}),
    "ClinicalTrials.gov XML": ("a.xml", TRIAL, [STUDY], {}),
    "PubTator": ("a.txt", PUBTATOR, [
        Document("31000001", "Statins | pain", "Pain was frequent.", {"url": PUBMED(31000001)}),
        Document("2", "Two", "", {"url": PUBMED(2)}), Document("3", "Three", "", {"url": PUBMED(3)}),
    ], {"bad line of PubTator text": ["a.txt:5 ('nonsense')"]}),
    "TREC": ("fr940104.0", TREC, [
        Document("FR94-1", "A & B", "Hello p < 3 x"), Document("2", "", "No element. café"),
        Document("4", "Four", "Text."),
    ], {"document without </DOC>": ["fr940104.0:8"],
         "file of another encoding than UTF-8": ["fr940104.0 (read as cp1252)"]}),
}  # fmt: skip


@pytest.mark.parametrize("name, text, expected, counted", CASES.values(), ids=CASES)
def test_documents_metadata_and_problems(tmp_path, name, text, expected, counted):
    """Alone, in a folder beside a file that its name tells nothing about, and compressed."""
    (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    problems = Problems()
    assert [*documents(str(tmp_path / name), problems)] == expected
    places = {
        kind: [place.replace(f"{tmp_path}/", "") for place in of_kind] for kind, of_kind in problems.examples.items()
    }
    assert places == counted
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x").write_bytes(gzip.compress(text.encode(errors="surrogateescape")))
    assert [*documents(str(tmp_path / "folder"), Problems())] == expected


def test_a_csv_without_texts_is_one_error(put):
    with pytest.raises(InputError, match=r"a.csv:1: no column of a title or an abstract among id, name: rename one"):
        list(documents(put("a.csv", "id,name\n1,x\n")))


@pytest.mark.parametrize(
    "name, text, spec, expected",
    [
        ("q.csv", 'qid,query\n1,"a, ""b"""\n2,c\n', "", [("1", 'a, "b"'), ("2", "c")]),
        ("q.csv", "Topic ID;Title;Description\n1;a;b\n", ":field=description", [("1", "b")]),
        ("q.csv", "1,no header\n2,x\n", "", [("1", "no header"), ("2", "x")]),
        ("q", "query_id,query\n1,x\n", "", [("1", "x")]),
        ("CD1", "Topic: CD1\n\nTitle: Tests\n for malaria\n\nQuery:\nexp x/\n\nPids:\n    12\nTopic: CD2\nTitle: X\n",
         "", [("CD1", "Tests for malaria"), ("CD2", "X")]),
        ("CD1", "Topic: CD1 \nTitle: T\nQuery: \n1 exp Malaria/\n2 x\nPids:\n 1\n", ":field=query",
         [("CD1", "1 exp Malaria/ 2 x")]),
    ],
)  # fmt: skip
def test_queries(put, name, text, spec, expected):
    assert [query[:2] for query in queries(put(name, text) + spec)] == expected


def test_a_folder_of_topics(put):
    put("topics/10", "Topic: CD10\nTitle: Ten\n")
    put("topics/README", "About them.")
    assert queries(put("topics/2", "Topic: CD2\nTitle: Two\n").rpartition("/")[0]) == [
        ("CD10", "Ten", None),
        ("CD2", "Two", None),
    ]


BIOASQ = """{"questions": [{"id": "a", "body": "Why?", "documents":
["http://www.ncbi.nlm.nih.gov/pubmed/12", "https://pubmed.ncbi.nlm.nih.gov/13/", "http://www.ncbi.nlm.nih.gov/pmc/PMC5"]},
{"id": "b", "body": "When?"}]}"""


@pytest.mark.parametrize(
    "name, text, expected",
    [
        ("j.csv", "query_id,doc_id,relevance,iteration\n1,d,2,0\n", {"1": {"d": 2}}),
        ("j.csv", "1,0,d,1\n1,0,e,0\n", {"1": {"d": 1, "e": 0}}),
        ("j", '"topic-id";"document";"grade"\n1;d;0.5\n', {"1": {"d": 0.5}}),
        ("bioasq.json", BIOASQ, {"a": {"12": 1, "13": 1}}),
    ],
)
def test_judgments(put, name, text, expected):
    assert judgments(put(name, text)) == expected


@pytest.mark.parametrize(
    "read, name, text, message",
    [
        (queries, "q.csv", "a,b,c\n1,2,3\n", "q.csv:1: no columns of query and id among a, b, c"),
        (queries, "q.csv", 'qid,query\n1,"x\n2,y\n', r"bad CSV row: .*q.csv:2 \(a quote does not end\)"),
        (queries, "q.csv", "qid,qu\rery\n1,x\n", "bad CSV row: .*q.csv:1"),
        (queries, "t", "Topic: CD1\nTitle: x\nTopic: CD2\nQuery: y\n", "t:3: the topic CD2 has no title; it has query"),
        (judgments, "j.csv", "qid,doc,rel\n1,d,x\n", "j.csv:2: the grade 'x' is not a number"),
        (judgments, "j.json", '{"questions": [{"id": "a", "body": "Why?"}]}', "j.json: no question names documents"),
        (judgments, "j.json", '{"questions": [', "expected questions of BioASQ"),
    ],
)
def test_queries_and_judgments_that_cannot_be_read(put, read, name, text, message):
    with pytest.raises(InputError, match=message):
        read(put(name, text))
