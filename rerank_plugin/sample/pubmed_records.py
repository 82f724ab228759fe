"""Invented citations as records in NLM's XML, each from its number and how often it was revised."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from xml.sax.saxutils import escape, quoteattr

from rerank_plugin.sample.citations import Citations
from rerank_plugin.sample.contents import CONCEPTS
from rerank_plugin.sample.generator import invented_word, pick

TWO_VERSIONS, VERSIONED, EVERY = 11, 7, 500  # of each 500 articles: one has two versions, one a version a revision
RETRACTED, NOTICE, ERRATUM, CORRECTED = 21, 22, 31, 32  # of each 500: an article and its notice, twice
SEASONS = ("Spring", "Summer", "Autumn", "Winter")
MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
MEDLINE_DATES: Sequence[Callable[[Random, int], str]] = (
    lambda rng, year: f"{year} {pick(rng, MONTHS[:6])}-{pick(rng, MONTHS[6:])}",
    lambda rng, year: f"{year} Dec-{year + 1} Jan",
    lambda rng, year: f"{year} {pick(rng, SEASONS)}",
    lambda rng, year: f"{year} Spring-Summer",
    lambda rng, year: f"{year}-{year + 1}",
    lambda rng, year: f"{year} {pick(rng, MONTHS)} {1 + int(rng.random() * 9)}-{10 + int(rng.random() * 18)}",
    lambda rng, year: f"{year} Aug 30-Sep 5",
    lambda rng, year: f"{year} {pick(rng, ('1st', '2nd', '3d', '4th'))} Quart",
    lambda rng, year: f"{year} 1st Half",
    lambda rng, year: f"{year}-{year + 1} Winter",
    lambda rng, year: f"{pick(rng, SEASONS)} {year}",
    lambda rng, year: f"{year} Dec 28-{year + 1} Jan 3",
)
LANGUAGES = ("ger", "fre", "spa", "rus", "chi", "jpn", "ita", "por", "pol")
TYPES = (
    ("D016428", "Journal Article", 70), ("D016454", "Review", 12), ("D016449", "Randomized Controlled Trial", 5),
    ("D002363", "Case Reports", 6), ("D016422", "Letter", 4),
    ("D017418", "Meta-Analysis", 2), ("D016421", "Editorial", 1),
)  # fmt: skip
CHECK_TAGS = ("Humans", "Female", "Male", "Adult", "Aged", "Middle Aged", "Animals", "Child", "Adolescent", "Mice")
QUALIFIERS = ("drug therapy", "adverse effects", "metabolism", "genetics", "epidemiology", "prevention & control")
GIVEN = (
    "Anna Berta Carl David Elena Feng Grace Hiro Ines Jan Kofi Lucia Maria Nadia Olu Peter Rosa Sven Tariq Yuki".split()
)
MATH = (
    '<mml:math xmlns:mml="http://www.w3.org/1998/Math/MathML"><mml:mrow><mml:mi>{0}</mml:mi><mml:mo>=</mml:mo>'
    "<mml:mn>{1}</mml:mn></mml:mrow></mml:math>"
)


class Records:
    """Writes records; the same for the same seed, number and revision."""

    def __init__(self, seed: int):
        self._seed, self._texts = seed, Citations(seed)

    def of_baseline(self, number: int, revision: int) -> list[str]:
        """The records of an article in a baseline, most often one."""
        if number % EVERY == TWO_VERSIONS:
            return [self.record(number, revision, 1), self.record(number, revision, 2)]
        return [self.record(number, revision, _version(number, revision))]

    def of_update(self, number: int, revision: int) -> str:
        """The record of an article in an update file; of one with two versions the older."""
        return self.record(number, revision, _version(number, revision))

    def deletions(self, articles: Iterable[tuple[int, int]]) -> str:
        """A deletion of the last version of each article, given with how often it was revised."""
        pmids = []
        for number, revision in articles:
            version = 2 if number % EVERY == TWO_VERSIONS else _version(number, revision)
            pmids.append(f'<PMID Version="{version}">{number + 1}</PMID>\n')
        return f"<DeleteCitation>\n{''.join(pmids)}</DeleteCitation>\n"

    def record(self, number: int, revision: int, version: int) -> str:
        """A ``PubmedArticle``."""
        rng, pmid, kind = Random(f"{self._seed} record {number}"), number + 1, number % EVERY
        title, sentences = self._texts.text(number, revision if revision % 5 == 4 else version - 1)
        year = 1975 + int(rng.random() ** 0.6 * 51)
        month, day = 1 + int(rng.random() * 12), 1 + int(rng.random() * 28)
        journal = int(300 * rng.random() ** 3)
        language = pick(rng, LANGUAGES) if rng.random() < 0.07 else "eng"
        types, notes = self._types_and_notes(rng, kind, pmid, revision)
        issn, volume, pages = (
            f"{1000 + journal}-{1000 + journal * 7 % 9000:04}",
            1 + int(rng.random() * 90),
            int(rng.random() * 900),
        )
        field = pick(Random(journal), ("Medicine", "Research", "Surgery"))
        name = f"Journal of {invented_word(9000 + journal).capitalize()} {field}"
        short = " ".join(word[:5] for word in name.split() if word != "of").replace("Journ", "J")
        doi = f"10.{1000 + journal}/{invented_word(5000 + journal)}.{year}.{pmid}"
        shown = escape(title)
        if rng.random() < 0.05:
            shown = f"{shown} <i>in vitro</i> at 10<sup>-{1 + kind % 9}</sup> M"
        if language != "eng":
            shown = f"[{shown}]." if rng.random() < 0.9 else "[Not Available]."
        vernacular = (
            f"<VernacularTitle>{escape(title.title())} ({language}).</VernacularTitle>\n" if language != "eng" else ""
        )
        wrong = (
            f'<ELocationID EIdType="doi" ValidYN="N">10.1/wrong.{pmid}</ELocationID>\n' if rng.random() < 0.02 else ""
        )
        pmc = f'<ArticleId IdType="pmc">PMC{pmid + 100000}</ArticleId>\n' if rng.random() < 0.2 else ""
        return f"""<PubmedArticle>
<MedlineCitation Status="{"MEDLINE" if revision else "Publisher"}" Owner="NLM">
<PMID Version="{version}">{pmid}</PMID>
<DateRevised><Year>{2025 + revision // 4}</Year><Month>01</Month><Day>{1 + revision % 28:02}</Day></DateRevised>
<Article PubModel="Print-Electronic">
<Journal>
<ISSN IssnType="Print">{issn}</ISSN>
<JournalIssue CitedMedium="Print">
<Volume>{volume}</Volume>
<Issue>{month}</Issue>
<PubDate>{_publication_date(rng, year, month, day)}</PubDate>
</JournalIssue>
<Title>{name}</Title>
<ISOAbbreviation>{short}</ISOAbbreviation>
</Journal>
<ArticleTitle>{shown}</ArticleTitle>
<Pagination>
<StartPage>{pages}</StartPage>
<EndPage>{pages + 9}</EndPage>
<MedlinePgn>{pages}-{pages + 9}</MedlinePgn>
</Pagination>
{wrong}<ELocationID EIdType="doi" ValidYN="Y">{doi}</ELocationID>
{_abstract(rng, sentences)}{_authors(rng)}<Language>{language}</Language>
<PublicationTypeList>
{types}</PublicationTypeList>
{vernacular}<ArticleDate DateType="Electronic">
<Year>{year}</Year>
<Month>{month:02}</Month>
<Day>{day:02}</Day>
</ArticleDate>
</Article>
<MedlineJournalInfo>
<Country>Nowhere</Country>
<MedlineTA>{short}</MedlineTA>
<NlmUniqueID>{100000 + journal}</NlmUniqueID>
<ISSNLinking>{issn}</ISSNLinking>
</MedlineJournalInfo>
{notes}{_headings(rng, revision)}{_other_abstract(rng, sentences)}</MedlineCitation>
<PubmedData>
<History>
<PubMedPubDate PubStatus="entrez">
<Year>{year}</Year>
<Month>{month}</Month>
<Day>{day}</Day>
</PubMedPubDate>
<PubMedPubDate PubStatus="pubmed">
<Year>{year}</Year>
<Month>{month}</Month>
<Day>{day}</Day>
</PubMedPubDate>
</History>
<PublicationStatus>ppublish</PublicationStatus>
<ArticleIdList>
<ArticleId IdType="pubmed">{pmid}</ArticleId>
<ArticleId IdType="doi">{doi}</ArticleId>
{pmc}</ArticleIdList>
</PubmedData>
</PubmedArticle>
"""

    def _types_and_notes(self, rng: Random, kind: int, pmid: int, revision: int) -> tuple[str, str]:
        """The publication types, and the references between an article and what corrects or retracts it."""
        types = [pick(rng, [(ui, name) for ui, name, share in TYPES for _ in range(share)])]
        note = ""
        if kind == RETRACTED and revision:
            types.append(("D016441", "Retracted Publication"))
            note = _note("RetractionIn", pmid + 1)
        elif kind == NOTICE:
            types, note = [("D016440", "Retraction of Publication")], _note("RetractionOf", pmid - 1)
        elif kind == ERRATUM:
            types, note = [("D016425", "Published Erratum")], _note("ErratumFor", pmid + 1)
        elif kind == CORRECTED:
            note = _note("ErratumIn", pmid - 1)
        written = "".join(f'<PublicationType UI="{ui}">{name}</PublicationType>\n' for ui, name in types)
        return written, f"<CommentsCorrectionsList>\n{note}</CommentsCorrectionsList>\n" if note else ""


def _version(number: int, revision: int) -> int:
    return 1 + revision if number % EVERY == VERSIONED else 1


def _note(kind: str, pmid: int) -> str:
    source = f'<RefSource>J Nowhere. 2024;1(2):3</RefSource>\n<PMID Version="1">{pmid}</PMID>'
    return f'<CommentsCorrections RefType="{kind}">\n{source}\n</CommentsCorrections>\n'


def _publication_date(rng: Random, year: int, month: int, day: int) -> str:
    drawn = rng.random()
    if drawn < 0.06:
        return f"<MedlineDate>{pick(rng, MEDLINE_DATES)(rng, year)}</MedlineDate>"
    named = f"<Month>{MONTHS[month - 1]}</Month>" if drawn < 0.9 else ""
    return f"<Year>{year}</Year>{named}{f'<Day>{day}</Day>' if drawn < 0.4 else ''}"


def _abstract(rng: Random, sentences: Sequence[tuple[str, str]]) -> str:
    """The abstract, in a quarter of the cases by sections, in a few with a formula."""
    if not sentences:
        return ""
    structured, formula = rng.random() < 0.25, rng.random() < 0.01
    sections: dict[str, list[str]] = {}
    for section, sentence in sentences:
        sections.setdefault(section if structured else "", []).append(escape(sentence))
    if formula:
        sections[next(iter(sections))].append(f"Here {MATH.format(pick(rng, 'αβγκλμ'), 1 + int(rng.random() * 9))}.")
    parts = [
        f"<AbstractText{f' Label={quoteattr(section)} NlmCategory={quoteattr(section)}' if section else ''}>"
        f"{' '.join(texts)}</AbstractText>\n"
        for section, texts in sections.items()
    ]
    right = "<CopyrightInformation>Nobody.</CopyrightInformation>\n" if rng.random() < 0.3 else ""
    return f"<Abstract>\n{''.join(parts)}{right}</Abstract>\n"


def _other_abstract(rng: Random, sentences: Sequence[tuple[str, str]]) -> str:
    if not sentences or rng.random() >= 0.02:
        return ""
    text = escape(sentences[0][1].upper())
    return f'<OtherAbstract Type="Publisher" Language="spa">\n<AbstractText>{text}</AbstractText>\n</OtherAbstract>\n'


def _authors(rng: Random) -> str:
    """One to nine authors, sometimes none; a group among a few of them."""
    count = int(rng.random() * 10)
    names = []
    for place in range(count):
        given, initial = pick(rng, GIVEN), pick(rng, "ABCDEFGHJKLM")
        where = (
            f"<AffiliationInfo><Affiliation>Clinic {place + 1}, Nowhere.</Affiliation></AffiliationInfo>"
            if place < 2
            else ""
        )
        last = invented_word(5000 + int(rng.random() ** 3 * 50000)).capitalize()
        names.append(
            f'<Author ValidYN="Y"><LastName>{last}</LastName><ForeName>{given} {initial}</ForeName>'
            f"<Initials>{given[0]}{initial}</Initials>{where}</Author>\n"
        )
    if count and rng.random() < 0.03:
        group = f"{invented_word(int(4000 + rng.random() * 9000)).upper()} Study Group"
        names.append(f'<Author ValidYN="Y"><CollectiveName>{group}</CollectiveName></Author>\n')
    return f'<AuthorList CompleteYN="Y">\n{"".join(names)}</AuthorList>\n' if names else ""


def _headings(rng: Random, revision: int) -> str:
    """Substances, headings and keywords; headings come with the first revision, and one more with each."""
    count = 3 + int(rng.random() * 5)
    chemical, *concepts = (pick(rng, CONCEPTS).forms[0].capitalize() for _ in range(count + 1))
    tags = [pick(rng, CHECK_TAGS) for _ in range(3)]
    keywords = [pick(rng, CONCEPTS).forms[-1] for _ in range(int(rng.random() * 4))]
    written = ""
    if rng.random() < 0.4:
        substance = (
            f'<RegistryNumber>0</RegistryNumber><NameOfSubstance UI="D000001">{escape(chemical)}</NameOfSubstance>'
        )
        written += f"<ChemicalList>\n<Chemical>{substance}</Chemical>\n</ChemicalList>\n"
    if revision or rng.random() < 0.8:
        written += "<MeshHeadingList>\n"
        for place, heading in enumerate(dict.fromkeys([*tags, *concepts[: 2 + revision]])):
            major, name = "NY"[place == len(tags)], escape(heading)
            qualifier = escape(pick(rng, QUALIFIERS))
            below = f'<QualifierName UI="Q000000" MajorTopicYN="N">{qualifier}</QualifierName>' if place > 2 else ""
            descriptor = f'<DescriptorName UI="D000000" MajorTopicYN="{major}">{name}</DescriptorName>'
            written += f"<MeshHeading>{descriptor}{below}</MeshHeading>\n"
        written += "</MeshHeadingList>\n"
    if keywords:
        items = "".join(f'<Keyword MajorTopicYN="N">{escape(keyword)}</Keyword>\n' for keyword in keywords)
        written += f'<KeywordList Owner="NOTNLM">\n{items}</KeywordList>\n'
    return written
