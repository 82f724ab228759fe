"""Studies of ClinicalTrials.gov: the XML of its downloads until 2024, and the JSON of its API (version 2).

`study` reads one as JSON, which :mod:`jsonl` finds by its protocol section, and so in the API's pages. The id is the
NCT number, the title the brief one. The text is the summary, the description, the conditions, the interventions and the
criteria of eligibility, by which trials are searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rerank_plugin.base.extras import naming_extras
from rerank_plugin.base.records import Document
from rerank_plugin.corpora.problems import Problems
from rerank_plugin.corpora.records import Record
from rerank_plugin.corpora.register import CORPUS, XML_ROOT, Format, register

# What a record has: places in JSON, below the protocol section unless they begin with another, and in XML.
PLACES = {
    "id": ("identificationModule.nctId", "id_info/nct_id"),
    "title": ("identificationModule.briefTitle", "brief_title"),
    "official": ("identificationModule.officialTitle", "official_title"),
    "summary": ("descriptionModule.briefSummary", "brief_summary/textblock"),
    "description": ("descriptionModule.detailedDescription", "detailed_description/textblock"),
    "CONDITIONS": ("conditionsModule.conditions", "condition"),
    "INTERVENTIONS": ("armsInterventionsModule.interventions.name", "intervention/intervention_name"),
    "ELIGIBILITY": ("eligibilityModule.eligibilityCriteria", "eligibility/criteria/textblock"),
    "keywords": ("conditionsModule.keywords", "keyword"),
    "date": ("statusModule.studyFirstPostDateStruct.date", "study_first_posted"),
    "start": ("statusModule.startDateStruct.date", "start_date"),
    "types": ("designModule.studyType", "study_type"),
    "mesh": ("derivedSection.conditionBrowseModule.meshes.term", "condition_browse/mesh_term"),
    "more mesh": ("derivedSection.interventionBrowseModule.meshes.term", "intervention_browse/mesh_term"),
}


def documents(paths: Iterable[Path], problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """Stream the studies of files in XML, in their order."""
    with naming_extras("reading ClinicalTrials.gov's XML"):
        from rerank_plugin.corpora import xml_records
    return xml_records.documents(paths, problems, ids_required, "clinical_study", _of_xml)


def _of_xml(element: Any) -> Record:
    return _record({name: [part.text or "" for part in element.iterfind(path)] for name, (_, path) in PLACES.items()})


def study(record: Mapping[str, Any]) -> Record:
    """The record of a study, as JSON has it."""
    protocol = record["protocolSection"]
    roots = {name: record if path.startswith("derived") else protocol for name, (path, _) in PLACES.items()}
    return _record({name: [*_at(roots[name], path.split("."))] for name, (path, _) in PLACES.items()})


def _at(value: Any, keys: list[str]) -> Iterator[str]:
    """The texts at a place, of every object of a list."""
    if isinstance(value, list):
        for item in value:
            yield from _at(item, keys)
    elif keys and isinstance(value, dict):
        yield from _at(value.get(keys[0]), keys[1:])
    elif not keys and isinstance(value, str):
        yield value


def _record(values: Mapping[str, list[str]]) -> Record:
    texts = {name: [" ".join(text.split()) for text in of_name if text.strip()] for name, of_name in values.items()}
    labelled = (f"{name}: {', '.join(texts[name])}." for name in texts if name.isupper() and texts[name])
    id, title, date, types = (next(iter(texts[name]), "") for name in ("id", "title", "date", "types"))
    fields = {
        "date": date or next(iter(texts["start"]), ""),
        "types": types,
        "keywords": texts["keywords"],
        "mesh": [*dict.fromkeys(texts["mesh"] + texts["more mesh"])],
        "url": f"https://clinicaltrials.gov/study/{id}" if id else "",
    }
    title = title or next(iter(texts["official"]), "")
    return Record(id, title, " ".join([*texts["summary"], *texts["description"], *labelled]), fields)


register(
    Format(
        "ClinicalTrials.gov",
        __name__,
        {CORPUS: "studies of ClinicalTrials.gov (XML or JSON)"},
        begins=XML_ROOT % "clinical_study|clinical_studies",
        subfolders=True,  # of its downloads, a thousand studies each
    )
)
