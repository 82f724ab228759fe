"""PubMed/MEDLINE XML; the reader is :mod:`rerank_plugin.corpora.pubmed_xml`."""

from rerank_plugin.corpora.register import CORPUS, Format, register

register(
    Format(
        "PubMed XML",
        "rerank_plugin.corpora.pubmed_xml",
        {CORPUS: "PubMed XML (a file or folder of *.xml[.gz])"},
        suffixes=(".xml",),
        begins="<(.*?<)?(Pubmed(Book)?Article|MedlineCitation|DeleteCitation|DeleteDocument)",
        subfolders=True,  # NLM's own tree has the folders baseline and updatefiles
    )
)
