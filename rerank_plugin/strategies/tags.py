"""The tags of PubMed's query language, by the fields that answer them, and its subsets."""

from __future__ import annotations

from rerank_plugin.base.strategy import ALL, EVERYTHING, Strategy, Term

# By the name of each field, its tags in PubMed.
TAGS = {
    tag: name
    for name, tags in {
        ALL: "all|all fields",
        "ti": "ti|title",
        "ab": "ab|abstract",
        "tiab": "tiab|title/abstract|title abstract",
        "tw": "tw|text word|text words|text|word",
        "au": "au|author|authors|fau|full author name|auid|author - full|author name|cn|corporate author|"
        "author - corporate",
        "1au": "1au|first author|author - first|first author name",
        "ta": "ta|jour|jt|journal|journal title|title abbreviation|so",
        "dp": "dp|pdat|date - publication|publication date|date of publication",
        "ppdat": "ppdat",
        "epdat": "epdat",
        "edat": "edat|entry date|date - entry|entrez date|edate",
        "crdt": "crdt|date - create|create date",
        "mh": "mh|mesh|mesh terms|mesh heading|mesh headings|mesh:noexp|mh:noexp|mesh terms:noexp",
        "majr": "majr|mesh major topic|major topic|majr:noexp|mesh major topic:noexp|mesh:majr",
        "sh": "sh|subheading|mesh subheading|subheadings|mesh subheadings|sh:noexp|subheading:noexp",
        "pt": "pt|ptyp|publication type|publication types",
        "la": "la|lang|language",
        "pmid": "pmid|uid",
        "doi": "doi|aid|lid|article identifier|location id",
        "pmc": "pmc|pmcid",
        "nm": "nm|supplementary concept|substance|substance name",
        "rn": "rn|ec/rn number|registry number",
        "vi": "vi|volume",
        "ip": "ip|issue",
        "pg": "pg|pagination|page",
        "ot": "ot|other term|other terms|keyword|keywords",
        "sb": "sb|subset|filter|filters",
    }.items()
    for tag in tags.split("|")
}
UNANSWERED = {
    tag: name
    for name, tags in {
        "affiliation": "ad|affiliation|affl",
        "grant number": "gr|grant number|grants and funding",
        "ISBN": "isbn",
        "ISSN": "is|issn",
        "pharmacological action": "pa|pharmacological action",
        "publisher": "pubn|publisher",
        "investigator": "ir|investigator|fir|full investigator name",
        "last author": "lastau|last author|author - last|last author name",
        "editor": "ed|editor",
        "book": "book|bt",
        "place of publication": "pl|place of publication",
        "personal name as subject": "ps|personal name as subject|subject - personal name",
        "secondary source": "si|secondary source id",
        "completion date": "dcom|date - completion|completion date",
        "date of MeSH": "mhda|mesh date|date - mesh",
        "date of change": "lr|date - last modification|modification date|last revision",
        "transliterated title": "tt|transliterated title",
        "conflict of interest": "cois|conflict of interest statements",
    }.items()
    for tag in tags.split("|")
}
# Subsets that the index can answer, by what they mean.
SUBSETS: dict[str, Strategy] = {
    "all": EVERYTHING, "hasabstract": Term("hasabstract", "sb"),
    "systematic": Term("systematic review", "pt"), "systematicreview": Term("systematic review", "pt"),
    "systematic review": Term("systematic review", "pt"), "review": Term("review", "pt"),
    "meta-analysis": Term("meta-analysis", "pt"), "clinicaltrial": Term("clinical trial", "pt"),
    "clinical trial": Term("clinical trial", "pt"),
    "randomizedcontrolledtrial": Term("randomized controlled trial", "pt"),
    "randomized controlled trial": Term("randomized controlled trial", "pt"), "humans": Term("humans", "mh"),
    "animals": Term("animals", "mh"), "animal": Term("animals", "mh"), "human": Term("humans", "mh"),
    "female": Term("female", "mh"), "male": Term("male", "mh"), "english": Term("english", "la"),
    "retracted publication": Term("retracted publication", "pt"),
}  # fmt: skip
