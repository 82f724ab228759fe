"""The semantic types of UMLS in their groups, and the selection of types to keep.

Groups: A. T. McCray, A. Burgun, O. Bodenreider. Aggregating UMLS semantic types for reducing conceptual complexity.
MedInfo 2001; the numbers and names of the types are those of the UMLS Semantic Network.

[K] 4.2 discards concepts "that do not belong to a medical semantic type (e.g. Quantitative Concept)" and does not list
the types. Here the groups Activities & Behaviors, Concepts & Ideas, Geographic Areas, Objects, Occupations and
Organizations are not medical, but for Food (of Objects), which medicine is asked about. The other nine are kept. A
concept with several types is kept when one of them is.
"""

from __future__ import annotations

from pathlib import Path

from rerank_plugin.files.errors import InputError
from rerank_plugin.knowledge.entries import Source

MEDICAL_GROUPS = ("ANAT", "CHEM", "DEVI", "DISO", "GENE", "LIVB", "PHEN", "PHYS", "PROC")
MEDICAL_OTHERS = ("T168",)  # Food
ALL = "all"

_GROUPS = {
    "ACTI": "T051 Event; T052 Activity; T053 Behavior; T054 Social Behavior; T055 Individual Behavior; T056 Daily or "
    "Recreational Activity; T057 Occupational Activity; T064 Governmental or Regulatory Activity; T066 Machine "
    "Activity",
    "ANAT": "T017 Anatomical Structure; T018 Embryonic Structure; T021 Fully Formed Anatomical Structure; T022 Body "
    "System; T023 Body Part, Organ, or Organ Component; T024 Tissue; T025 Cell; T026 Cell Component; T029 Body "
    "Location or Region; T030 Body Space or Junction; T031 Body Substance",
    "CHEM": "T103 Chemical; T104 Chemical Viewed Structurally; T109 Organic Chemical; T114 Nucleic Acid, Nucleoside, "
    "or Nucleotide; T116 Amino Acid, Peptide, or Protein; T120 Chemical Viewed Functionally; T121 Pharmacologic "
    "Substance; T122 Biomedical or Dental Material; T123 Biologically Active Substance; T125 Hormone; T126 Enzyme; "
    "T127 Vitamin; T129 Immunologic Factor; T130 Indicator, Reagent, or Diagnostic Aid; T131 Hazardous or Poisonous "
    "Substance; T192 Receptor; T195 Antibiotic; T196 Element, Ion, or Isotope; T197 Inorganic Chemical; T200 Clinical "
    "Drug",
    "CONC": "T077 Conceptual Entity; T078 Idea or Concept; T079 Temporal Concept; T080 Qualitative Concept; T081 "
    "Quantitative Concept; T082 Spatial Concept; T089 Regulation or Law; T102 Group Attribute; T169 Functional "
    "Concept; T170 Intellectual Product; T171 Language; T185 Classification",
    "DEVI": "T074 Medical Device; T075 Research Device; T203 Drug Delivery Device",
    "DISO": "T019 Congenital Abnormality; T020 Acquired Abnormality; T033 Finding; T037 Injury or Poisoning; T046 "
    "Pathologic Function; T047 Disease or Syndrome; T048 Mental or Behavioral Dysfunction; T049 Cell or Molecular "
    "Dysfunction; T050 Experimental Model of Disease; T184 Sign or Symptom; T190 Anatomical Abnormality; T191 "
    "Neoplastic Process",
    "GENE": "T028 Gene or Genome; T085 Molecular Sequence; T086 Nucleotide Sequence; T087 Amino Acid Sequence; T088 "
    "Carbohydrate Sequence",
    "GEOG": "T083 Geographic Area",
    "LIVB": "T001 Organism; T002 Plant; T004 Fungus; T005 Virus; T007 Bacterium; T008 Animal; T010 Vertebrate; T011 "
    "Amphibian; T012 Bird; T013 Fish; T014 Reptile; T015 Mammal; T016 Human; T096 Group; T097 Professional or "
    "Occupational Group; T098 Population Group; T099 Family Group; T100 Age Group; T101 Patient or Disabled Group; "
    "T194 Archaeon; T204 Eukaryote",
    "OBJC": "T071 Entity; T072 Physical Object; T073 Manufactured Object; T167 Substance; T168 Food",
    "OCCU": "T090 Occupation or Discipline; T091 Biomedical Occupation or Discipline",
    "ORGA": "T092 Organization; T093 Health Care Related Organization; T094 Professional Society; T095 Self-help or "
    "Relief Organization",
    "PHEN": "T034 Laboratory or Test Result; T038 Biologic Function; T067 Phenomenon or Process; T068 Human-caused "
    "Phenomenon or Process; T069 Environmental Effect of Humans; T070 Natural Phenomenon or Process",
    "PHYS": "T032 Organism Attribute; T039 Physiologic Function; T040 Organism Function; T041 Mental Process; T042 "
    "Organ or Tissue Function; T043 Cell Function; T044 Molecular Function; T045 Genetic Function; T201 Clinical "
    "Attribute",
    "PROC": "T058 Health Care Activity; T059 Laboratory Procedure; T060 Diagnostic Procedure; T061 Therapeutic or "
    "Preventive Procedure; T062 Research Activity; T063 Molecular Biology Research Technique; T065 Educational "
    "Activity",
}

GROUPS: dict[str, dict[str, str]] = {
    group: dict(one.split(" ", 1) for one in types.split("; ")) for group, types in _GROUPS.items()
}
NAMES: dict[str, str] = {type: name for types in GROUPS.values() for type, name in types.items()}
MEDICAL = frozenset(type for group in MEDICAL_GROUPS for type in GROUPS[group]) | frozenset(MEDICAL_OTHERS)


def selected(wanted: str | None, source: Source) -> frozenset[str] | None:
    """The types to keep, given by ``wanted`` as a comma-separated list or a file; None keeps all concepts.

    Raises:
        InputError: a type is not known in UMLS, or the list is empty.
    """
    if wanted is None:
        return source.kept_types
    if wanted == ALL:
        return None
    parts = _listed(wanted)
    if not parts:
        raise InputError(f"the types {wanted!r}: no type is named; give types joined by commas, a file, or {ALL}")
    if source.format != "umls":
        return frozenset(parts)
    return frozenset(type for part in parts for type in _umls_types(part))


def _listed(wanted: str) -> list[str]:
    """The types one by one; a name of UMLS may hold commas itself, so a file has one a line."""
    path = Path(wanted)
    if path.is_file():
        from rerank_plugin.files.text_files import lines

        found = [line.partition("#")[0].strip() for _, line in lines(path)]
    elif wanted in NAMES.values():
        found = [wanted]
    else:
        found = [part.strip() for part in wanted.split(",")]
    return [part for part in found if part]


def _umls_types(part: str) -> list[str]:
    if part in GROUPS:
        return list(GROUPS[part])
    if part in NAMES:
        return [part]
    by_name = [type for type, name in NAMES.items() if name.lower() == part.lower()]
    if not by_name:
        raise InputError(
            f"the type {part}: no semantic type of UMLS; expected a type (T047), its name (Disease or Syndrome) or a "
            f"group ({', '.join(GROUPS)})"
        )
    return by_name
