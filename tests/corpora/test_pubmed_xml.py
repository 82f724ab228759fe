"""PubMed XML: texts, versions, deletions, damage, and what a hostile or very long file can do."""

import re
import tracemalloc
from itertools import islice
from pathlib import Path

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Document, Problems, documents
from rerank_plugin.corpora.xml_records import Records
from tests.corpora.pubmed import BOOK, ENTITY, OLD, article, deletion, read, xml


@pytest.fixture
def only(put):
    """The document of an article with these parts."""

    def only(**parts):
        [document] = documents(put("a.xml", xml(article("1", **parts))))
        return document

    return only


def math(tags):
    """MathML as in PubMed, with a prefix at every tag."""
    prefixed = re.sub("<(/?)(?=[a-z])", r"<\1mml:", tags)
    return f'<mml:math xmlns:mml="http://www.w3.org/1998/Math/MathML">{prefixed}</mml:math>'


@pytest.mark.parametrize(
    "markup, text",
    [
        ("The <i>in vitro</i> use of\n   CO<sub>2</sub>", "The in vitro use of CO2"),
        ("Ca<sup>2+</sup> and <sup>13</sup>C, CD4<sup>+</sup>", "Ca2+ and 13C, CD4+"),
        ("10<sup>6</sup> cells, 10<sup>−6</sup> M", "10^6 cells, 10^-6 M"),
        ("<b>Bold <i>and <u>nested</u></i></b> tail", "Bold and nested tail"),
        ("&lt;5 &amp; &gt;3 &#x3b2;-catenin", "<5 & >3 β-catenin"),
        ("before<!-- a comment --> after<?pi x?>.", "before after."),
        (f"where{math('<mi>p</mi><mo>&lt;</mo><mn>0.05</mn>')}holds", "where p < 0.05 holds"),
        (math("<msup><mrow>\n<mn>10</mn></mrow><mrow><mo>-</mo><mn>6</mn></mrow></msup>"), "10^-6"),
        (
            math(
                "<semantics><mrow><msub><mi>H</mi><mn>2</mn></msub><mo>\u2062</mo><mi>O</mi></mrow>"
                "<annotation>H_2O</annotation></semantics>"
            ),
            "H2 O",
        ),
        (math("<mfrac><mn>1<!-- a comment -->0</mn><mn>2</mn></mfrac>"), "10/2"),
    ],
)
def test_inline_markup_becomes_text(only, markup, text):
    assert only(title=markup, abstract=f"<AbstractText>{markup}</AbstractText>")[1:3] == (text, text)


def test_labels_of_structured_abstracts(only):
    sections = (
        '<AbstractText Label="BACKGROUND" NlmCategory="BACKGROUND">Why.</AbstractText>'
        '<AbstractText Label="METHODS:">How.</AbstractText>'
        '<AbstractText Label="RESULTS"/>'
        '<AbstractText Label="UNLABELLED">What.</AbstractText>'
        "<AbstractText>So.</AbstractText>"
    )
    assert only(abstract=sections).abstract == "BACKGROUND: Why. METHODS: How. What. So."


VERNACULAR = "<VernacularTitle>Über die <i>Leber</i>.</VernacularTitle>"


@pytest.mark.parametrize(
    "title, after, expected",
    [
        # the brackets of translated titles
        ("[Studies on the liver].", "", "Studies on the liver"),
        ("[Studies [on] the liver.]", "", "Studies [on] the liver."),
        ("[18F]FDG in place of [11C].", "", "[18F]FDG in place of [11C]."),
        ("Effects of [drug].", "", "Effects of [drug]."),
        # the vernacular title where there is no other
        ("[Not Available].", VERNACULAR, "Über die Leber."),
        ("", VERNACULAR, "Über die Leber."),
        ("[On the liver].", VERNACULAR, "On the liver"),
    ],
)
def test_titles(only, title, after, expected):
    assert only(title=title, after=after).title == expected


def test_books_and_the_older_citation_set(put, tmp_path):
    chapter = BOOK.replace("</Book>", "</Book><ArticleTitle>A Chapter</ArticleTitle>")
    put("1.xml", xml(BOOK.format(7), chapter.format(8)))
    put("2.xml", f"<MedlineCitationSet>{OLD.format(3)}{OLD.format(4)}</MedlineCitationSet>")
    assert [document[:3] for document in documents(str(tmp_path))] == [
        ("7", "A Book", "About."), ("8", "A Chapter", "About."), ("3", "Old 3", ""), ("4", "Old 4", "")]  # fmt: skip


COLLECTIONS = {
    "of a version the last record by names and places wins": (
        {"pubmed24n0002.xml.gz": xml(article("2", "two, later"), article("1", "one, later", version=3)),
         "pubmed24n0001.xml": xml(
             article("1", "one", version=3), article("2", "two"), article("3", "three"), article("4", "four"),
             article("4", "four, again"))},
        ["three", "four, again", "two, later", "one, later"], {}),
    "the highest version wins, whatever the order": (
        {"1.xml": xml(article("1", "1, third", version=3), article("2", "2, first"), article("3", "3, first")),
         "2.xml": xml(article("1", "1, second", version=2), article("2", "2, tenth", version=10),
                      article("2", "2, ninth", version=9), article("1", "1, first"))},
        ["1, third", "3, first", "2, tenth"], {}),
    "a deletion names one version, or without a number all": (
        {"1.xml": xml(article("1", "1, first"), article("1", "1, second", version=2), article("2", version=2),
                      article("2"), article("3", "3, second", version=2), article("3", "3, first"), article("4")),
         "2.xml": xml('<DeleteCitation><PMID Version="2">1</PMID><PMID>2</PMID><PMID Version="1">3</PMID>'
                      '<PMID Version="1">4</PMID></DeleteCitation>', article("2", "2, back"))},
        ["1, first", "3, second", "2, back"], {}),
    "deletions remove what came before them": (
        {"1.xml": xml(article("10"), article("20", "stays"), article("30")),
         "2.xml": xml(article("40"), deletion("10", "15", "30", "40", "777")),
         "3.xml": xml(article("30", "back again"), article("50", "new"))},
        ["stays", "back again", "new"], {}),
    "files in folders are read by name": (
        {"2024updates/pubmed24n0002.xml": xml(article("1", "new")),
         "baseline/pubmed24n0001.xml": xml(article("1", "old"))},
        ["new"], {}),
    "a later version that cannot be read does not hide the one before": (
        {"1.xml": xml(article("1", "readable")), "2.xml.gz": xml(article("1", "a \x0b"), article("2", "later"))},
        ["readable", "later"], {"malformed XML": ["2.xml.gz, PMID 1 (PCDATA invalid Char value 11)"]}),
    "an empty set or one of deletions is valid": (
        {"1.xml": xml(article("1"), article("2", "two")), "2.xml": xml(deletion("1")),
         "3.xml": "<PubmedArticleSet/>", "4.xml": "<PubmedBookArticleSet>\n<!-- none -->\n</PubmedBookArticleSet>"},
        ["two"], {}),
    "deletions alone": ({"1.xml": xml(deletion("1"))}, [], {}),
    "a missing abstract is empty": (
        {"1.xml": xml(article("1", "no abstract", abstract="", other=""), article("2", "", abstract="", other=""))},
        ["no abstract"], {"empty document": ["1.xml: PMID 2"]}),
    "articles without a usable PMID": (
        {"1.xml": xml(article("", "One"), article("", "Two"), article("a b"), article("5", "five"))},
        ["five"], {"missing id": ["1.xml: 'One'", "1.xml: 'Two'"], "unusable id": ["1.xml: PMID a b ('a b')"]}),
    "a PMID with an entity is not the rest of it": (  # 12, whose place it would take
        {"1.xml": xml(article("12", "Twelve"), article("12&y;3", "entity"), doctype=ENTITY)},
        ["Twelve"], {"missing id": ["1.xml: 'entity'"]}),
    "deletions of no whole PMID delete nothing": (
        {"1.xml": xml(article("1", "one"), article("2"), deletion("", "1&y;", " 2 "), doctype=ENTITY)}, ["one"], {}),
    "entities of a DTD that is not loaded are reported, and their records kept": (
        {"1.xml": xml(
            article("1", "Caf&eacute;"),
            article("2", "two", "<AbstractText>One.</AbstractText><AbstractText><i>&alpha;</i></AbstractText>"),
            article("3", "", after="<VernacularTitle>&Uuml;ber</VernacularTitle>"),
            article("4", "four", after="<Affiliation>&nbsp;</Affiliation>"))},  # no part of the document
        ["Caf", "two", "ber", "four"],
        {"unexpanded entity": ["1.xml: PMID 1 (&eacute;)", "1.xml: PMID 2 (&alpha;)", "1.xml: PMID 3 (&Uuml;)"]}),
    "well-formed files without a record are reported": (
        {"1.xml": "<html><body><p>Not found</p></body></html>",
         "2.xml": f'<PubmedArticleSet xmlns="https://example.org/x">{article("1")}</PubmedArticleSet>',
         "3.xml": "<PubmedArticleSet><Article/></PubmedArticleSet>",
         "4.xml": xml(article("4", "four"))},
        ["four"],
        {"file without PubMed records": ["1.xml (<html>)", "2.xml (<{https://example.org/x}PubmedArticleSet>)",
                                         "3.xml (<PubmedArticleSet>)"]}),
}  # fmt: skip


@pytest.mark.parametrize("files, titles, problems", COLLECTIONS.values(), ids=COLLECTIONS)
def test_documents_and_problems_of_files(put, tmp_path, files, titles, problems):
    for name, text in files.items():
        put(name, text)
    docs, places_by_kind = read(tmp_path)
    assert [document.title for document in docs] == titles and places_by_kind == problems
    if problems:
        with pytest.raises(InputError, match=next(iter(problems))):
            list(documents(str(tmp_path), Problems(strict=True)))


def test_ids_may_be_absent_where_only_words_matter(put):
    spec = put("a.xml", xml(article("", "One"), article("", "Two")))
    assert [document[:2] for document in documents(spec, Problems(), ids_required=False)] == [("", "One"), ("", "Two")]


def test_entities_are_not_expanded_and_nothing_is_fetched(put, tmp_path):
    secret = Path(put("secret.txt", "SECRET")).as_uri()
    doctype = f'<!DOCTYPE PubmedArticleSet [<!ENTITY x SYSTEM "{secret}"><!ENTITY y "EXPANDED">]>'
    put("xml/a.xml", xml(article("1", "before &x; &y; after &amp;"), article("2"), doctype=doctype))
    docs, places_by_kind = read(tmp_path / "xml")
    assert [document.title for document in docs] == ["before after &", "A title."]
    assert places_by_kind == {"unexpanded entity": ["a.xml: PMID 1 (&x;, &y;)"]}


@pytest.mark.parametrize(
    "change, named",
    [
        (lambda text: text.replace("Words", "W\x0brds"), "b.xml"),
        (lambda text: text[:1500] + "</x>", "b.xml"),
        (lambda text: "<PubmedArticleSet/>", "c.xml"),
        (lambda text: xml(*map(article, (20, 21, 22))), "c.xml"),
    ],
    ids=["no character of XML", "cut", "fewer articles", "more articles"],
)
def test_a_file_that_changes_between_the_readings_is_an_error(put, tmp_path, change, named):
    for name, pmids in (("a.xml", [1]), ("b.xml", [20, 21]), ("c.xml", [30])):
        put(name, xml(*map(article, pmids)))
    stream = documents(str(tmp_path), Problems())
    assert next(stream).id == "1"  # all have been read once
    put("b.xml", change((tmp_path / "b.xml").read_text()))
    with pytest.raises(InputError, match=f"{named}: the file changed while it was read"):
        list(stream)


@pytest.mark.parametrize(
    "bomb",
    [
        article("1", "a &e11; b"),
        article("1", abstract='<AbstractText Label="&e11;">x</AbstractText>'),  # attributes have rules of their own
    ],
    ids=["text", "attribute"],
)
def test_an_xml_bomb_does_not_go_off(put, tmp_path, bomb):
    """libxml2 refuses such a file or leaves the entity alone, as its version has it; expanded, the text would have
    300 GB. The other file is read in any case."""
    levels = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 12))
    put("a.xml", xml(bomb, doctype=f'<!DOCTYPE PubmedArticleSet [<!ENTITY e0 "lol">{levels}]>'))
    put("b.xml", xml(article("2")))
    problems = Problems()
    docs = list(documents(str(tmp_path), problems))
    assert sum(len("".join(document[:3])) for document in docs) < 1000
    assert docs[-1].id == "2"
    assert problems.counts == ({"malformed XML": 1} if len(docs) == 1 else {})


def test_elements_are_freed_while_a_long_file_is_read(put):
    """The memory of libxml2 is not Python's, so that the elements of its tree are counted."""
    spec = put("a.xml.gz", xml(*map(article, range(1, 4001))))
    sampled = islice(Records(Path(spec), "PubmedArticle"), 0, None, 100)
    trees = [sum(1 for _ in record.getroottree().iter()) for record in sampled]
    per_article = 25
    assert len(trees) == 40 and max(trees) < 100 * per_article  # a chunk of the file, not 4,000 articles

    tracemalloc.start()
    assert sum(1 for _ in documents(spec)) == 4000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 15_000_000


METADATA = """<AuthorList><Author><LastName>M&#252;ller</LastName><Initials>JA</Initials></Author>
  <Author><CollectiveName>The <i>Heart</i> Group</CollectiveName></Author></AuthorList>
  <Language>eng</Language><Language>ger</Language>
  <PublicationTypeList><PublicationType>Review</PublicationType><PublicationType>Meta-Analysis</PublicationType>
  </PublicationTypeList>
  <ArticleDate><Year>2014</Year><Month>12</Month><Day>01</Day></ArticleDate>"""
HEADINGS = """</Article><MedlineJournalInfo><MedlineTA>J Titles</MedlineTA></MedlineJournalInfo>
  <MeshHeadingList><MeshHeading><DescriptorName UI="D1">Aspirin</DescriptorName><QualifierName>therapy</QualifierName>
  </MeshHeading><MeshHeading><DescriptorName>Heart Diseases</DescriptorName></MeshHeading></MeshHeadingList>
  <CommentsCorrectionsList><CommentsCorrections RefType="RetractionIn"/></CommentsCorrectionsList><Article>"""


RECORD = """<Journal><ISSN>0000-1234</ISSN><JournalIssue><Volume>3</Volume><Issue>2</Issue></JournalIssue></Journal>
  <Pagination><MedlinePgn>11-9</MedlinePgn></Pagination><VernacularTitle>T&#237;tulo.</VernacularTitle><AuthorList>
  <Author><LastName>Doe</LastName><ForeName>Jane</ForeName><Initials>J</Initials>
    <AffiliationInfo><Affiliation>Clinic, Town.</Affiliation></AffiliationInfo></Author>
  <Author><LastName>Roe</LastName><ForeName>Ann</ForeName><Initials>A</Initials><Suffix>Jr</Suffix>
    <AffiliationInfo><Affiliation>Another.</Affiliation></AffiliationInfo></Author></AuthorList></Article>
  <ChemicalList><Chemical><RegistryNumber>R16CO5Y76E</RegistryNumber><NameOfSubstance>Aspirin</NameOfSubstance></Chemical>
    <Chemical><NameOfSubstance>Pills</NameOfSubstance></Chemical></ChemicalList>
  <SupplMeshList><SupplMeshName Type="Disease">Segawa syndrome</SupplMeshName></SupplMeshList>
  <MeshHeadingList><MeshHeading><DescriptorName MajorTopicYN="N">Aspirin</DescriptorName></MeshHeading><MeshHeading>
    <DescriptorName MajorTopicYN="N">Pain</DescriptorName><QualifierName MajorTopicYN="Y">drug therapy</QualifierName>
  </MeshHeading></MeshHeadingList><CommentsCorrectionsList><CommentsCorrections RefType="ExpressionOfConcernIn">
    <RefSource>J Test. 2020;1(2):3.</RefSource><PMID>12</PMID></CommentsCorrections></CommentsCorrectionsList>
  <DateCreated><Year>2019</Year><Month>02</Month><Day>28</Day></DateCreated>
  <ArticleIdList><ArticleId IdType="pmc">PMC12</ArticleId></ArticleIdList><Article>"""


HISTORY = "<PubmedData><History>{}</History></PubmedData>".format(
    "".join(
        f"<PubMedPubDate PubStatus='{status}'><Year>2019</Year><Month>2</Month><Day>{day}</Day></PubMedPubDate>"
        for status, day in (("entrez", 26), ("pubmed", 28))
    )
)


def test_dates_of_entry_and_creation(put):
    """As NLM's DTD says: ``pubmed`` is [edat], ``entrez`` [crdt]."""
    record = article("1").replace("</PubmedArticle>", f"{HISTORY}</PubmedArticle>")
    [document] = documents(put("a.xml", xml(record)))
    assert (document.metadata["entry_date"], document.metadata["create_date"]) == ("2019-02-28", "2019-02-26")


def test_metadata(only):
    """The date of the article online, as the issue has none; headings and journal stand beside the article."""
    always = {
        "journal": "Journal of Titles", "retracted": False, "url": "https://pubmed.ncbi.nlm.nih.gov/1/",
        "pmid_version": 1,
    }  # fmt: skip
    assert only() == Document("1", "A title.", "Words.", {
        **always, "notices": ["Comment in: PMID: 999"], "other_abstract": "Palabras."})  # fmt: skip
    always |= {"notices": ["Comment in: PMID: 999"], "other_abstract": "Palabras."}
    assert only(after=METADATA).metadata == {
        **always, "date": "2014-12-01", "electronic_date": "2014-12-01", "authors": ["Müller JA", "The Heart Group"],
        "types": ["Review", "Meta-Analysis"], "languages": ["eng", "ger"],
    }  # fmt: skip
    metadata = only(after=HEADINGS).metadata
    assert metadata == {
        **always, "journal": "J Titles", "full_journal_title": "Journal of Titles", "retracted": True,
        "mesh": ["Aspirin", "Heart Diseases"], "subheadings": ["Aspirin/therapy"],
    }  # fmt: skip
    assert only(after=RECORD).metadata == {
        **always, "volume": "3", "issue": "2", "issn": "0000-1234", "pages": "11-9", "pmc": "PMC12",
        "authors": ["Doe J", "Roe A Jr"], "full_names": ["Doe, Jane", "Roe, Ann Jr"], "affiliation": "Clinic, Town.",
        "original_title": "Título.", "entry_date": "2019-02-28", "create_date": "2019-02-28",
        "chemicals": ["Aspirin", "Pills", "Segawa syndrome"],
        "registry_numbers": ["R16CO5Y76E", "0", "0"], "mesh": ["Aspirin", "Pain"],
        "major_topics": ["Pain"], "subheadings": ["Pain/drug therapy"],
        "notices": ["Expression of concern in: J Test. 2020;1(2):3. PMID: 12", "Comment in: PMID: 999"],
    }  # fmt: skip
    assert only(after=METADATA.replace("Review", "Retracted Publication")).metadata["retracted"]


@pytest.mark.parametrize(
    "date, expected",
    [
        ("<Year>2015</Year>", "2015"),
        ("<Year>2015</Year><Month>Mar</Month>", "2015-03"),
        ("<Year>2015</Year><Month>Jan</Month><Day>1</Day>", "2015-01-01"),
        ("<Year>2015</Year><Month>3</Month><Day>7</Day>", "2015-03-07"),
        ("<Year>2015</Year><Season>Spring</Season><Day>7</Day>", "2015"),
        ("<MedlineDate>2015 Mar-Apr</MedlineDate>", "2015-03"),
        ("<MedlineDate>2015-2016</MedlineDate>", "2015"),
        ("<MedlineDate>2015 Dec 24-31</MedlineDate>", "2015-12"),
        ("<MedlineDate>Spring 2015</MedlineDate>", "2015"),
        ("<MedlineDate>2015 Spring</MedlineDate>", "2015"),
        ("<MedlineDate>Mar-Apr 2015</MedlineDate>", "2015-03"),
        ("<MedlineDate>1998 Dec-1999 Jan</MedlineDate>", "1998-12"),
        ("<Year>15</Year>", None),
        ("", None),
    ],
)
def test_dates(put, date, expected):
    issue = f"<Journal><JournalIssue><PubDate>{date}</PubDate></JournalIssue>"
    [document] = documents(put("a.xml", xml(article("1").replace("<Journal>", issue))))
    assert document.metadata.get("date") == expected


@pytest.mark.parametrize(
    "date, readable",
    [
        ("<Year>15</Year>", None),
        ("<MedlineDate>in press</MedlineDate>", None),
        ("<Year>2015</Year><Month>13</Month>", "2015"),
        ("<Year>2015</Year><Month>Feb</Month><Day>30</Day>", "2015-02"),
    ],
)
@pytest.mark.parametrize("online", ["", "2014-02"])
def test_a_date_that_cannot_be_read_is_counted(put, date, readable, online):
    """Of two dates, the first that tells at least a year is taken."""
    issue = f"<Journal><JournalIssue><PubDate>{date}</PubDate></JournalIssue>"
    after = online and "<ArticleDate><Year>2014</Year><Month>02</Month></ArticleDate>"
    problems = Problems()
    spec = put("a.xml", xml(article("1", after=after).replace("<Journal>", issue)))
    expected = readable or online or None
    assert [document.metadata.get("date") for document in documents(spec, problems)] == [expected]
    assert problems.examples == {"unusable metadata entry": [f"{spec}: PMID 1 (date)"]}


def test_a_book_has_the_date_of_a_contribution_and_a_doi(put):
    book = "<BookDocument><PMID>9</PMID><Book><BookTitle>B</BookTitle></Book><ContributionDate><Year>2001</Year>"
    book += "</ContributionDate></BookDocument><PubmedBookData><ArticleIdList>"
    book += '<ArticleId IdType="doi">10.1000/b</ArticleId></ArticleIdList></PubmedBookData>'
    [document] = documents(
        put("a.xml", f"<PubmedArticleSet><PubmedBookArticle>{book}</PubmedBookArticle></PubmedArticleSet>")
    )
    assert (document.metadata["date"], document.metadata["doi"]) == ("2001", "10.1000/b")


def other(text, language="eng", type="Publisher"):
    return f'<OtherAbstract Type="{type}" Language="{language}"><AbstractText>{text}</AbstractText></OtherAbstract>'


@pytest.mark.parametrize(
    "abstract, others, expected",
    [
        ("<AbstractText>Own.</AbstractText>", other("Other."), "Own."),
        ("", other("Other.", type="plain-language-summary"), "Other."),
        ("<AbstractText/>", other("Autre.", "fre") + other("Other."), "Other."),
        ("", other("") + other("Autre.", "fre"), "Autre."),
        ("", other("Abstract available from the publisher.", "fre"), ""),
        ("", other("Autre.", "fr") + other("Other.", "EN"), "Other."),
    ],
)
def test_another_abstract_is_the_only_one(only, abstract, others, expected):
    assert only(abstract=abstract, other=others).abstract == expected


def test_doi_and_keywords(only, put):
    located = '<ELocationID EIdType="pii">x</ELocationID><ELocationID EIdType="doi">10.1000/x.1</ELocationID>'
    words = "</Article><KeywordList><Keyword>nets</Keyword><Keyword>malaria</Keyword></KeywordList><Article>"
    metadata = only(after=located + words).metadata
    assert (metadata["doi"], metadata["keywords"]) == ("10.1000/x.1", ["nets", "malaria"])
    invalid = '<ELocationID EIdType="doi" ValidYN="N">10.1000/bad</ELocationID>'
    assert only(after=f"{invalid}{located}").metadata["doi"] == "10.1000/x.1"
    assert "doi" not in only(after=invalid).metadata
    listed = '<ArticleId IdType="doi" ValidYN="N">10.1000/bad</ArticleId>'
    listed += '<ArticleId IdType="doi">10.1000/x.2</ArticleId></ArticleIdList><ReferenceList><ArticleIdList>'
    listed += '<ArticleId IdType="doi">10.1000/cited</ArticleId></ArticleIdList></ReferenceList>'
    [document] = documents(put("b.xml", xml(article("1").replace("</ArticleIdList>", listed))))
    assert document.metadata["doi"] == "10.1000/x.2"
