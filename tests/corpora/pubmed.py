"""PubMed XML for the tests: articles with elements that are not part of a document, and a reader of a folder."""

import re

from rerank_plugin.corpora import Problems, documents

DOCTYPE = (
    '<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2024//EN" '
    '"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_240101.dtd">'
)
ENTITY = '<!DOCTYPE PubmedArticleSet [<!ENTITY y "<b>EXPANDED</b>">]>'
BOOK = """<PubmedBookArticle><BookDocument><PMID Version="1">{}</PMID><Book><BookTitle>A Book</BookTitle></Book>
  <Abstract><AbstractText>About.</AbstractText></Abstract></BookDocument><PubmedBookData/></PubmedBookArticle>"""
OLD = "<MedlineCitation><PMID>{0}</PMID><Article><ArticleTitle>Old {0}</ArticleTitle></Article></MedlineCitation>"


OTHER = '<OtherAbstract Type="Publisher" Language="spa"><AbstractText>Palabras.</AbstractText></OtherAbstract>'


def article(pmid, title="A title.", abstract="<AbstractText>Words.</AbstractText>", after="", version=1, other=OTHER):
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
        {other}
      </MedlineCitation>
      <PubmedData><ArticleIdList><ArticleId IdType="pubmed">{pmid}</ArticleId></ArticleIdList></PubmedData>
    </PubmedArticle>"""


def deletion(*pmids):
    return "<DeleteCitation>" + "".join(f'<PMID Version="1">{pmid}</PMID>' for pmid in pmids) + "</DeleteCitation>"


def xml(*parts, doctype=DOCTYPE):
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{doctype}\n<PubmedArticleSet>{''.join(parts)}\n</PubmedArticleSet>"


def read(folder):
    """The documents of a folder, and the places of its problems by kind, without the folder and line numbers."""
    problems = Problems()
    docs = list(documents(str(folder), problems))
    places_by_kind = {
        kind: [re.sub(r":\d+", "", place.removeprefix(f"{folder}/")) for place in places]
        for kind, places in problems.examples.items()
    }
    return docs, places_by_kind
