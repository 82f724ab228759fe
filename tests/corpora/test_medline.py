"""MEDLINE text, PubMed's own export."""

import pytest

from rerank_plugin.corpora import Document, Problems, documents

RECORDS = """
PMID- 31000001
OWN - NLM
DP  - 2019 Mar-Apr
TI  - [Statins and the risk of
      new diabetes].
LID - S0140-6736(19)1 [pii]
LID - 10.1000/x.1 [doi]
AB  - BACKGROUND: We followed adults who took
      statins.
AU  - Doe J
AU  - Roe A
CN  - Heart Group
FAU - Doe, Jane
FAU - Roe, Ann
AD  - Clinic, Town.
AD  - Another.
VI  - 7
IP  - 2
PG  - 11-9
IS  - 0000-1234 (Print)
EDAT- 2019/02/28 06:00
PMC - PMC12
RN  - 0 (Statins (all))
RN  - AB12C (Glucose)
EIN - J Test. 2019;8(1):3. PMID: 9
TT  - Estatinas.
OAB - Hemos seguido.
TA  - J Test
JT  - Journal of tests
MH  - *Diabetes Mellitus/chemically induced
MH  - Humans
PT  - Review
LA  - eng
OT  - statins

PMID- 31000002
TI  - [Not Available].
TT  - Aspirina.
OAB - Low doses.
PMID- 31000003
BTI - A Book
RIN - J Test. 2020
"""


@pytest.mark.parametrize("name", ["search.nbib", "pubmed-set.txt", "search.nbib.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_records_and_their_metadata(put, name, end):
    problems = Problems()
    first, second, third = documents(put(name, "\ufeff" + RECORDS.replace("\n", end)), problems)
    assert first[:2] == ("31000001", "Statins and the risk of new diabetes")
    assert first.abstract == "BACKGROUND: We followed adults who took statins."
    assert first.metadata == {
        "date": "2019-03", "journal": "J Test", "authors": ["Doe J", "Roe A", "Heart Group"],
        "mesh": ["Diabetes Mellitus", "Humans"], "types": ["Review"], "languages": ["eng"], "retracted": False,
        "url": "https://pubmed.ncbi.nlm.nih.gov/31000001/", "doi": "10.1000/x.1", "keywords": ["statins"],
        "major_topics": ["Diabetes Mellitus"], "subheadings": ["Diabetes Mellitus/chemically induced"],
        "full_names": ["Doe, Jane", "Roe, Ann", "Heart Group"], "affiliation": "Clinic, Town.",
        "full_journal_title": "Journal of tests", "volume": "7", "issue": "2", "pages": "11-9", "issn": "0000-1234",
        "entry_date": "2019-02-28", "pmc": "PMC12", "chemicals": ["Statins (all)", "Glucose"],
        "registry_numbers": ["0", "AB12C"],
        "notices": ["Erratum in: J Test. 2019;8(1):3. PMID: 9"], "original_title": "Estatinas.",
        "other_abstract": "Hemos seguido.",
    }  # fmt: skip
    assert second[:3] == ("31000002", "Aspirina.", "Low doses.")
    assert third[:3] == ("31000003", "A Book", "") and third.metadata["retracted"]
    assert problems.total == 0


def test_a_placeholder_is_no_abstract_and_a_tab_goes_on_with_a_field(put):
    text = "PMID- 1\nTI  - One\n\ttwo\nOAB - Publisher: Abstract available from the publisher.\nOABL- fre\n"
    problems = Problems()
    [document] = documents(put("a.nbib", text), problems)
    assert document[:3] == ("1", "One two", "") and problems.total == 0


def test_lines_that_cannot_be_read_are_counted(put):
    problems = Problems()
    first = "PMID- 1\nTI  - One\nnonsense\n      of no field\nAB  - \udce9t\u00e9\n"
    spec = put("a.nbib", f"{first}\nTI  - no id\n\nPMID- 2\nTI  - é\n")
    assert list(documents(spec, problems)) == [
        Document("1", "One", "\ufffdt\u00e9", {"retracted": False, "url": "https://pubmed.ncbi.nlm.nih.gov/1/"}),
        Document("2", "é", "", {"retracted": False, "url": "https://pubmed.ncbi.nlm.nih.gov/2/"}),
    ]
    assert problems.counts == {"bad line of MEDLINE text": 1, "undecodable line": 1, "missing id": 1}
    assert problems.examples["bad line of MEDLINE text"][0].startswith(f"{spec}:3 ")


@pytest.mark.parametrize("encoding, byte", [("cp1252", "’"), ("latin-1", "\x81")])
def test_a_file_has_one_encoding(tmp_path, encoding, byte):
    text = f"PMID- 1\nTI  - Dry eyes\nAB  - Sjögren{byte} patients of\n      any age.\nAU  - Müller J\n"
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    problems = Problems()
    [document] = documents(str(tmp_path / "a.txt"), problems)
    assert document[:3] == ("1", "Dry eyes", f"Sjögren{byte} patients of any age.")
    assert document.metadata["authors"] == ["Müller J"]
    place = f"{tmp_path / 'a.txt'} (read as {encoding})"
    assert problems.examples == {"file of another encoding than UTF-8": [place]}
