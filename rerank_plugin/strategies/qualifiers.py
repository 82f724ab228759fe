"""MeSH's qualifiers (subheadings) and their codes of two letters, by which PubMed and Ovid abbreviate them."""

from __future__ import annotations

_CODES = (
    "ab abnormalities|ad administration & dosage|ae adverse effects|ag agonists|aa analogs & derivatives|an analysis|"
    "ah anatomy & histology|ai antagonists & inhibitors|bi biosynthesis|bl blood|bs blood supply|"
    "cf cerebrospinal fluid|cs chemical synthesis|ci chemically induced|ch chemistry|cl classification|"
    "co complications|cn congenital|cy cytology|df deficiency|di diagnosis|dg diagnostic imaging|dh diet therapy|"
    "de drug effects|dt drug therapy|ec economics|ed education|em embryology|en enzymology|ep epidemiology|es ethics|"
    "eh ethnology|et etiology|ge genetics|gd growth & development|hi history|im immunology|in injuries|ir innervation|"
    "is instrumentation|ip isolation & purification|lj legislation & jurisprudence|me metabolism|mt methods|"
    "mi microbiology|mo mortality|nu nursing|og organization & administration|ps parasitology|py pathogenicity|"
    "pa pathology|pk pharmacokinetics|pd pharmacology|ph physiology|pp physiopathology|po poisoning|"
    "pc prevention & control|px psychology|re radiation effects|rt radiotherapy|rh rehabilitation|sc secondary|"
    "se secretion|st standards|sn statistics & numerical data|sd supply & distribution|su surgery|tu therapeutic use|"
    "th therapy|to toxicity|tm transmission|tr transplantation|td trends|ul ultrastructure|ur urine|ve veterinary|"
    "vi virology"
)
# Of NLM's hierarchies of qualifiers, by their codes, which others each one includes.
_FAMILIES = (
    "an bl cf ip ur|ah bs cy ul em ab ir pa|cy ul|em ab|ch ag aa ai cs|di dg pa|et ci co sc cn em ge im mi vi ps tm|"
    "co sc|mi vi|og ec lj st sd td|pd ad ae po to ag ai pk|ae po to|ph ge gd im me bi bl cf df en pk ur pp se|"
    "me bi bl cf df en pk ur|sn ep eh mo sd|ep eh mo|tu ad ae po|th dh dt nu pc rt rh su tr|su tr"
)
QUALIFIERS = {code: name for code, _, name in (entry.partition(" ") for entry in _CODES.split("|"))}

_NAMES = frozenset(QUALIFIERS.values())
NARROWER = {
    QUALIFIERS[code]: tuple(QUALIFIERS[other] for other in others.split())
    for code, _, others in (family.partition(" ") for family in _FAMILIES.split("|"))
}


def narrower(qualifier: str) -> tuple[str, ...]:
    """The qualifiers that a qualifier includes.

    >>> narrower("Epidemiology"), narrower("nursing")
    (('ethnology', 'mortality'), ())
    """
    return NARROWER.get(_folded(qualifier), ())


def is_qualifier(text: str) -> bool:
    """Whether a text is the name of a qualifier."""
    return _folded(text) in _NAMES


def _folded(qualifier: str) -> str:
    return " ".join(qualifier.lower().replace(" and ", " & ").split())


def with_qualifier(text: str) -> str:
    """A qualifier, alone or after a heading and a slash, with the name of its code: ``Stroke/ep``.

    >>> [with_qualifier(text) for text in ("ae", "Stroke/ EP", "Stroke/genetics")]
    ['adverse effects', 'Stroke/epidemiology', 'Stroke/genetics']
    """
    heading, slash, qualifier = text.rpartition("/")
    return f"{heading.strip()}{slash}{QUALIFIERS.get(qualifier.strip().lower(), qualifier.strip())}"
