"""Generated distributions of PubMed: read as PubMed's, the same every time, with everything that NLM's have."""

import gzip
import hashlib
import re
from dataclasses import replace

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Problems, pubmed_xml
from rerank_plugin.sample.pubmed import Distribution, write_distribution

PLAN = Distribution(citations=1100, updates=2, per_file=600)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated") / "26"
    assert write_distribution(folder, PLAN) == 4
    return folder


def paths(folder):
    return sorted(folder.glob("*/*.gz"), key=lambda path: path.name)


def test_names_and_sums(folder, tmp_path):
    names = [path.relative_to(folder).as_posix() for path in paths(folder)]
    assert names == [
        f"{part}/pubmed26n000{number}.xml.gz"
        for part, number in zip(["baseline"] * 2 + ["updatefiles"] * 2, range(1, 5))
    ]
    for path in paths(folder):
        digest = hashlib.md5(path.read_bytes()).hexdigest()
        assert path.with_name(f"{path.name}.md5").read_text() == f"MD5({path.name})= {digest}\n"
    write_distribution(tmp_path / "again", PLAN)
    assert [path.read_bytes() for path in paths(tmp_path / "again")] == [path.read_bytes() for path in paths(folder)]


@pytest.mark.parametrize(
    "pattern",
    [
        '<PMID Version="2">', "<DeleteCitation>", 'RefType="RetractionIn"', 'RefType="RetractionOf"',
        'RefType="ErratumIn"',
        'Label="METHODS"', "<Language>ger<", "<VernacularTitle>", "<mml:math", "<CollectiveName>", 'ValidYN="N">10',
        r"<MedlineDate>\d{4} Dec-\d{4} Jan<", r"<MedlineDate>\d{4} \w+ \d+-\d+<", r"<MedlineDate>\d{4}-\d{4}<",
        r"\[Not Available\]", "<OtherAbstract", "<sup>", "</PubmedArticle>\n<PubmedArticle><MedlineCitation>a & b",
    ],
)  # fmt: skip
def test_what_is_in_it(folder, pattern):
    assert any(re.search(pattern, gzip.decompress(path.read_bytes()).decode()) for path in paths(folder)), pattern


def test_it_is_read_as_pubmed(folder):
    problems = Problems()
    documents = list(pubmed_xml.documents(paths(folder), problems))
    assert problems.counts == {"malformed XML": 1}  # all dates are read, too
    assert all(document.metadata.get("date") for document in documents)
    with_abstract = sum(bool(document.abstract) for document in documents) / len(documents)
    assert with_abstract == pytest.approx(2 / 3, abs=0.04)
    assert {"retracted", "notices", "original_title", "pmc", "doi"} <= {
        name for one in documents for name in one.metadata
    }


def test_the_next_year_has_what_is_left(folder, tmp_path):
    write_distribution(tmp_path / "27", replace(PLAN, release=27, updates=2))
    baseline = [path for path in paths(tmp_path / "27") if path.parent.name == "baseline"]
    assert baseline[0].name == "pubmed27n0001.xml.gz"
    of_year, left = (pubmed_xml.documents(files, Problems()) for files in (paths(folder), baseline))
    assert {document.id for document in left} == {document.id for document in of_year}


def test_refused_plans():
    with pytest.raises(InputError, match="release from 26"):
        Distribution(release=25)
