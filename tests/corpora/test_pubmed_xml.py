"""PubMed XML: texts, versions, deletions, damage, and what a hostile or very long file can do."""

import gzip
import re
import tracemalloc

import pytest

from rerank_plugin.corpora import Document, Problems, documents, pubmed_xml
from rerank_plugin.files.errors import InputError

DOCTYPE = (
    '<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2024//EN" '
    '"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_240101.dtd">'
)
ENTITY = '<!DOCTYPE PubmedArticleSet [<!ENTITY y "9">]>'


def math(tags):
    """MathML as in PubMed, with a prefix at every tag."""
    prefixed = re.sub("<(/?)(?=[a-z])", r"<\1mml:", tags)
    return f'<mml:math xmlns:mml="http://www.w3.org/1998/Math/MathML">{prefixed}</mml:math>'


def article(pmid, title="A title.", abstract="<AbstractText>Words.</AbstractText>", after="", version=1):
    return f"""
    <PubmedArticle>
      <MedlineCitation Status="MEDLINE" Owner="NLM">
        <PMID Version="{version}">{pmid}</PMID>
        <DateRevised><Year>2020</Year><Month>01</Month><Day>02</Day></DateRevised>
        <Article PubModel="Print">
          <Journal><Title>Journal of Titles</Title></Journal>
          <ArticleTitle>{title}</ArticleTitle>
          {f"<Abstract>{abstract}<CopyrightInformation>Copyright</CopyrightInformation></Abstract>" if abstract else ""}
          {after}
        </Article>
        <CommentsCorrectionsList><CommentsCorrections RefType="CommentIn"><PMID Version="1">999</PMID>
        </CommentsCorrections></CommentsCorrectionsList>
        <OtherAbstract Type="Publisher" Language="spa"><AbstractText>Palabras.</AbstractText></OtherAbstract>
      </MedlineCitation>
      <PubmedData><ArticleIdList><ArticleId IdType="pubmed">{pmid}</ArticleId></ArticleIdList></PubmedData>
    </PubmedArticle>"""


def deletion(*pmids):
    return "<DeleteCitation>" + "".join(f'<PMID Version="1">{pmid}</PMID>' for pmid in pmids) + "</DeleteCitation>"


def xml(*parts, doctype=DOCTYPE):
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{doctype}\n<PubmedArticleSet>{''.join(parts)}\n</PubmedArticleSet>"


def write(path, *parts, doctype=DOCTYPE):
    data = xml(*parts, doctype=doctype).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def read(path):
    """The ids of the documents of a file or folder, and how many problems of each kind it has."""
    problems = Problems()
    return [document.id for document in documents(str(path), problems)], problems.counts


def only(tmp_path, **parts):
    [document] = documents(write(tmp_path / "a.xml", article("1", **parts)))
    return document


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
def test_inline_markup_becomes_text(tmp_path, markup, text):
    assert only(tmp_path, title=markup, abstract=f"<AbstractText>{markup}</AbstractText>")[1:3] == (text, text)


def test_labels_of_structured_abstracts(tmp_path):
    sections = (
        '<AbstractText Label="BACKGROUND" NlmCategory="BACKGROUND">Why.</AbstractText>'
        '<AbstractText Label="METHODS:">How.</AbstractText>'
        '<AbstractText Label="RESULTS"/>'
        '<AbstractText Label="UNLABELLED">What.</AbstractText>'
        "<AbstractText>So.</AbstractText>"
    )
    assert only(tmp_path, abstract=sections).abstract == "BACKGROUND: Why. METHODS: How. What. So."


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
def test_titles(tmp_path, title, after, expected):
    assert only(tmp_path, title=title, after=after).title == expected


def test_a_missing_abstract_is_empty_and_an_empty_document_a_problem(tmp_path):
    spec = write(tmp_path / "a.xml", article("1", abstract=""), article("2", title="", abstract=""))
    problems = Problems()
    assert [d[:3] for d in documents(spec, problems)] == [("1", "A title.", "")]
    assert problems.examples == {"empty document": [f"{spec}: PMID 2"]}


def test_articles_without_a_usable_pmid(tmp_path):
    spec = write(tmp_path / "a.xml", article("", title="One"), article("", title="Two"), article("a b"), article("5"))
    assert read(spec) == (["5"], {"missing id": 2, "unusable id": 1})
    with pytest.raises(InputError, match="missing id: .*'One'"):
        list(documents(spec, Problems(strict=True)))
    assert [d.title for d in documents(spec, Problems(), ids_required=False)][:2] == ["One", "Two"]


def test_books_and_the_older_citation_set(tmp_path):
    book = """<PubmedBookArticle><BookDocument><PMID Version="1">7</PMID>
      <Book><BookTitle>A Book</BookTitle></Book><Abstract><AbstractText>About.</AbstractText></Abstract>
      </BookDocument><PubmedBookData/></PubmedBookArticle>"""
    chapter = book.replace(">7<", ">8<").replace("</Book>", "</Book><ArticleTitle>A Chapter</ArticleTitle>")
    assert [d[:3] for d in documents(write(tmp_path / "a.xml", book, chapter))] == [
        ("7", "A Book", "About."), ("8", "A Chapter", "About.")]  # fmt: skip
    old = "<MedlineCitation><PMID>{0}</PMID><Article><ArticleTitle>Old {0}</ArticleTitle></Article></MedlineCitation>"
    (tmp_path / "old.xml").write_text(f"<MedlineCitationSet>{old.format(3)}{old.format(4)}</MedlineCitationSet>")
    assert [d.title for d in documents(str(tmp_path / "old.xml"))] == ["Old 3", "Old 4"]


def test_the_last_version_wins_across_files_and_within_one(tmp_path):
    # Names, not the order of writing, decide; the version number does not.
    write(tmp_path / "pubmed24n0002.xml.gz", article("2", "two, later"), article("1", "one, later", version=1))
    write(
        tmp_path / "pubmed24n0001.xml",
        article("1", "one", version=3), article("2", "two"), article("3", "three"), article("4", "four"),
        article("4", "four, again", version=2),
    )  # fmt: skip
    assert [(d.id, d.title) for d in documents(str(tmp_path))] == [
        ("3", "three"), ("4", "four, again"), ("2", "two, later"), ("1", "one, later")]  # fmt: skip


def test_deletions_remove_what_came_before_them(tmp_path):
    write(tmp_path / "1.xml", article("10"), article("20"), article("30"))
    write(tmp_path / "2.xml", article("40"), deletion("10", "15", "30", "40", "777"))
    write(tmp_path / "3.xml", article("30", "back again"), article("50"))
    assert [(d.id, d.title) for d in documents(str(tmp_path))] == [
        ("20", "A title."), ("30", "back again"), ("50", "A title.")]  # fmt: skip


def test_the_tree_of_nlm_is_read_by_file_name(tmp_path):
    for folder, name, title in (("2024updates", "pubmed24n0002.xml", "new"), ("baseline", "pubmed24n0001.xml", "old")):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / name, article("1", title))
    assert [d.title for d in documents(str(tmp_path))] == ["new"]


def test_a_later_version_that_cannot_be_read_does_not_hide_the_one_before(tmp_path):
    write(tmp_path / "1.xml", article("1", "readable"))
    write(tmp_path / "2.xml", article("1", "a \x0b in it"), article("2", "later"))
    assert [d.title for d in documents(str(tmp_path), Problems())] == ["readable", "later"]


def test_a_truncated_gzip(tmp_path):
    text = "<PubmedArticleSet>" + "".join(article(i, f"Title {i * 7919}") for i in range(1, 4001))
    packed = gzip.compress(text.encode())
    (tmp_path / "1.xml.gz").write_bytes(packed[: len(packed) // 2])
    write(tmp_path / "2.xml.gz", article("9001"))
    ids, counts = read(tmp_path)
    assert ids == [*map(str, range(1, len(ids))), "9001"] and 1500 < len(ids) < 2500
    assert counts == {"damaged gzip file": 1}


def test_entities_are_not_expanded_and_nothing_is_fetched(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("SECRET")
    doctype = f'<!DOCTYPE PubmedArticleSet [<!ENTITY x SYSTEM "{secret.as_uri()}"><!ENTITY y "EXPANDED">]>'
    folder = tmp_path / "xml"
    folder.mkdir()
    spec = write(folder / "a.xml", article("1", "before &x; &y; after &amp;"), article("2"), doctype=doctype)
    problems = Problems()
    assert [document.title for document in documents(str(folder), problems)] == ["before after &", "A title."]
    assert problems.examples == {"unexpanded entity": [f"{spec}: PMID 1 (&x;, &y;)"]}
    assert problems.summary(kept=False) == []
    with pytest.raises(InputError, match="unexpanded entity: .*PMID 1 "):
        list(documents(str(folder), Problems(strict=True)))


@pytest.mark.parametrize(
    "parts",
    [
        dict(title="Caf&eacute;"),
        dict(abstract="<AbstractText>One.</AbstractText><AbstractText>An <i>&alpha;</i> is lost.</AbstractText>"),
        dict(title="", after="<VernacularTitle>&Uuml;ber</VernacularTitle>"),
    ],
)
def test_an_entity_of_a_dtd_that_is_not_loaded_is_counted_and_its_record_kept(tmp_path, parts):
    spec = write(tmp_path / "a.xml", article("1", **parts), article("2", after="<Affiliation>&nbsp;</Affiliation>"))
    assert read(spec) == (["1", "2"], {"unexpanded entity": 1})  # what is no part of a document loses nothing


def test_a_pmid_with_an_entity_is_not_the_rest_of_it(tmp_path):
    """12&y;3 would be read as 12, and take the place of that article."""
    spec = write(tmp_path / "a.xml", article("12", "Twelve"), article("12&y;3"), doctype=ENTITY)
    assert read(spec) == (["12"], {"missing id": 1})
    assert next(documents(spec, Problems())).title == "Twelve"


def test_deletions_of_no_whole_pmid_delete_nothing(tmp_path):
    spec = write(tmp_path / "a.xml", article("1"), article("2"), deletion("", "1&y;", " 2 "), doctype=ENTITY)
    assert read(spec) == (["1"], {})


@pytest.mark.parametrize(
    "text, root",
    [
        ("<html><body><p>Not found</p></body></html>", "html"),
        (f'<PubmedArticleSet xmlns="https://example.org/x">{article("1")}</PubmedArticleSet>',
         "{https://example.org/x}PubmedArticleSet"),
        (f'<PubmedArticleSet>{article("1").replace("PubmedArticle", "Article")}</PubmedArticleSet>'.replace(
            "MedlineCitation", "Citation"), "PubmedArticleSet"),
    ],
)  # fmt: skip
def test_a_sound_file_that_holds_no_record_is_told(tmp_path, text, root):
    (tmp_path / "1.xml").write_text(text)
    write(tmp_path / "2.xml", article("4"))
    problems = Problems()
    assert [d.id for d in documents(str(tmp_path), problems)] == ["4"]
    assert problems.summary() == [f"1 file without PubMed records: {tmp_path / '1.xml'} (<{root}>)"]
    with pytest.raises(InputError, match="file without PubMed records: .*1.xml "):
        list(documents(str(tmp_path), Problems(strict=True)))


def test_a_set_of_nothing_or_of_deletions_is_sound(tmp_path):
    write(tmp_path / "1.xml", article("1"), article("2"))
    write(tmp_path / "2.xml", deletion("1"))
    (tmp_path / "3.xml").write_text("<PubmedArticleSet/>")
    (tmp_path / "4.xml").write_text("<PubmedBookArticleSet>\n<!-- none -->\n</PubmedBookArticleSet>")
    assert [d.id for d in documents(str(tmp_path), Problems(strict=True))] == ["2"]


@pytest.mark.parametrize("change", [lambda text: text.replace("Words", "W\x0brds"), lambda text: text[:1500] + "</x>",
                                    lambda text: "<PubmedArticleSet/>"])  # fmt: skip
def test_a_file_that_changes_between_the_readings_is_an_error(tmp_path, monkeypatch, change):
    path = tmp_path / "a.xml"
    write(path, *(article(pmid) for pmid in range(1, 10)))
    write(tmp_path / "b.xml", article("20"))
    read = pubmed_xml._last_versions

    def then_change(*arguments):
        result = read(*arguments)
        path.write_text(change(path.read_text()))
        return result

    monkeypatch.setattr(pubmed_xml, "_last_versions", then_change)
    with pytest.raises(InputError, match="changed while it was being read"):
        list(documents(str(tmp_path), Problems()))


@pytest.mark.parametrize(
    "bomb",
    [
        article("1", "a &e11; b"),
        article("1", abstract='<AbstractText Label="&e11;">x</AbstractText>'),  # attributes have rules of their own
    ],
)
def test_an_xml_bomb_does_not_go_off(tmp_path, bomb):
    levels = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 12))
    doctype = f'<!DOCTYPE PubmedArticleSet [<!ENTITY e0 "lol">{levels}]>'
    write(tmp_path / "b.xml", article("2"))
    (tmp_path / "a.xml").write_text(f"{doctype}<PubmedArticleSet>{bomb}</PubmedArticleSet>")
    problems = Problems()
    # libxml2 either refuses such a file or leaves the entity alone, as its version has it; expanded, the text would
    # have 300 GB. The other file is read in any case.
    found = list(documents(str(tmp_path), problems))
    assert sum(len("".join(document[:3])) for document in found) < 1000
    assert found[-1].id == "2"
    assert problems.counts == ({"malformed XML": 1} if len(found) == 1 else {})


def test_elements_are_freed_while_a_long_file_is_read(tmp_path):
    spec = write(tmp_path / "a.xml.gz", *(article(pmid) for pmid in range(1, 4001)))
    # What the tree of the file holds at any moment: libxml2's memory is not Python's, so elements are counted.
    largest = read = 0
    for record in pubmed_xml._records(tmp_path / "a.xml.gz", None, Problems()):
        read += 1
        if read % 100 == 0:
            largest = max(largest, sum(1 for _ in record.getroottree().iter()))
    assert read == 4000
    per_article = 25
    assert largest < 100 * per_article  # a chunk of the file, not 4,000 articles

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


def test_metadata(tmp_path):
    """The date of the article online, as the issue has none; headings and journal stand beside the article."""
    assert only(tmp_path) == Document("1", "A title.", "Words.", {"journal": "Journal of Titles", "retracted": False})
    assert only(tmp_path, after=METADATA).metadata == {
        "date": "2014-12-01", "journal": "Journal of Titles", "authors": ["Müller JA", "The Heart Group"],
        "types": ["Review", "Meta-Analysis"], "languages": ["eng", "ger"], "retracted": False,
    }  # fmt: skip
    found = only(tmp_path, after=HEADINGS).metadata
    assert found == {"journal": "J Titles", "mesh": ["Aspirin", "Heart Diseases"], "retracted": True}
    retracted = METADATA.replace("Review", "Retracted Publication")
    assert only(tmp_path, after=retracted).metadata["retracted"]


@pytest.mark.parametrize(
    "date, expected",
    [
        ("<Year>2015</Year>", "2015"),
        ("<Year>2015</Year><Month>Mar</Month>", "2015-03"),
        ("<Year>2015</Year><Month>3</Month><Day>7</Day>", "2015-03-07"),
        ("<Year>2015</Year><Season>Spring</Season><Day>7</Day>", "2015"),
        ("<MedlineDate>2015 Mar-Apr</MedlineDate>", "2015-03"),
        ("<MedlineDate>2015-2016</MedlineDate>", "2015"),
        ("<MedlineDate>2015 Dec 24-31</MedlineDate>", "2015-12"),
        ("<MedlineDate>Spring 2015</MedlineDate>", None),
        ("<Year>15</Year>", None),
        ("", None),
    ],
)
def test_dates(tmp_path, date, expected):
    issue = f"<Journal><JournalIssue><PubDate>{date}</PubDate></JournalIssue>"
    [document] = documents(write(tmp_path / "a.xml", article("1").replace("<Journal>", issue)))
    assert document.metadata.get("date") == expected
