import gzip

import pytest

from rerank_plugin.files.errors import InputError
from rerank_plugin.knowledge import mesh_xml
from rerank_plugin.knowledge.entries import Concept, Relation

HEAD = """<?xml version="1.0"?>
<!DOCTYPE DescriptorRecordSet SYSTEM "https://www.nlm.nih.gov/databases/dtd/nlmdescriptorrecordset_20240101.dtd">
<DescriptorRecordSet LanguageCode = "eng">
"""
HEART = """<DescriptorRecord DescriptorClass = "1">
 <DescriptorUI>D006331</DescriptorUI>
 <DescriptorName><String>Heart Diseases</String></DescriptorName>
 <TreeNumberList><TreeNumber>C14.280</TreeNumber></TreeNumberList>
 <ConceptList><Concept PreferredConceptYN="Y"><ConceptUI>M0010060</ConceptUI>
  <ConceptName><String>Heart Diseases</String></ConceptName>
  <TermList>
   <Term ConceptPreferredTermYN="Y" IsPermutedTermYN="N" LexicalTag="NON" RecordPreferredTermYN="Y">
    <TermUI>T019193</TermUI><String>Heart Diseases</String></Term>
   <Term ConceptPreferredTermYN="N" IsPermutedTermYN="Y" LexicalTag="NON" RecordPreferredTermYN="N">
    <TermUI>T019193</TermUI><String>Diseases, Heart</String></Term>
  </TermList></Concept></ConceptList>
</DescriptorRecord>
"""
ISCHEMIA = """<DescriptorRecord DescriptorClass = "1">
 <DescriptorUI>D017202</DescriptorUI>
 <DescriptorName><String>Myocardial Ischemia</String></DescriptorName>
 <SeeRelatedList><SeeRelatedDescriptor><DescriptorReferredTo><DescriptorUI>D000787</DescriptorUI>
  <DescriptorName><String>Angina Pectoris</String></DescriptorName></DescriptorReferredTo></SeeRelatedDescriptor>
 </SeeRelatedList>
 <TreeNumberList><TreeNumber>C14.280.647</TreeNumber><TreeNumber>C23.1</TreeNumber></TreeNumberList>
 <ConceptList>
  <Concept PreferredConceptYN="Y"><TermList><Term><String>Myocardial Ischemia</String></Term>
   <Term><String>Ischemic Heart Disease &amp; Co</String></Term></TermList></Concept>
  <Concept PreferredConceptYN="N"><TermList><Term><String>Ischämie  des Herzens</String></Term>
   <Term><String>Myocardial Ischemia</String></Term></TermList></Concept>
 </ConceptList>
</DescriptorRecord>
"""
ASPIRIN = """<DescriptorRecord DescriptorClass = "1">
 <DescriptorUI>D001241</DescriptorUI><DescriptorName><String>Aspirin</String></DescriptorName>
 <PharmacologicalActionList><PharmacologicalAction><DescriptorReferredTo><DescriptorUI>D000894</DescriptorUI>
  <DescriptorName><String>Anti-Inflammatory Agents, Non-Steroidal</String></DescriptorName></DescriptorReferredTo>
 </PharmacologicalAction></PharmacologicalActionList>
</DescriptorRecord>
"""


@pytest.fixture
def written(tmp_path):
    def write(text, name="desc2024.xml"):
        path = tmp_path / name
        data = text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write


def read(path):
    source = mesh_xml.source(path)
    return list(source.concepts), list(source.relations)


@pytest.mark.parametrize("name", ["desc2024.xml", "desc2024.xml.gz"])
def test_names_trees_and_references_are_read(written, name):
    concepts, relations = read(written(f"{HEAD}{HEART}{ISCHEMIA}{ASPIRIN}</DescriptorRecordSet>", name))
    assert concepts == [
        Concept("D006331", "Heart Diseases", ("Diseases, Heart",), ("C",)),
        Concept("D017202", "Myocardial Ischemia", ("Ischemic Heart Disease & Co", "Ischämie des Herzens"), ("C",)),
        Concept("D001241", "Aspirin", (), ()),
    ]
    assert relations == [
        Relation("D017202", "parent", "D006331"),
        Relation("D017202", "related", "D000787"),
        Relation("D001241", "pharmacological action", "D000894"),
    ]


def test_a_broken_file_is_named_with_its_line(written):
    path = written(f"{HEAD}{HEART}<DescriptorRecord>\n<DescriptorUI>D1</Descriptor>")
    with pytest.raises(InputError, match=r"desc2024\.xml:18: malformed XML"):
        read(path)


def test_a_truncated_file_is_an_error_and_not_a_smaller_vocabulary(written, tmp_path):
    path = written(f"{HEAD}{HEART}{ISCHEMIA}")
    with pytest.raises(InputError, match="malformed XML"):
        read(path)
    packed = written(f"{HEAD}{HEART * 500}</DescriptorRecordSet>", "desc2024.xml.gz")
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(InputError, match="desc2024.xml.gz"):
        list(mesh_xml.descriptors(packed))


@pytest.mark.parametrize(
    "lost, expected", [("<DescriptorUI>D006331</DescriptorUI>", "UI"), ("<String>Heart Diseases</String>", "Name")]
)
def test_a_record_without_id_or_name_is_named(written, lost, expected):
    path = written(f"{HEAD}{ASPIRIN}{HEART.replace(lost, '', 1)}</DescriptorRecordSet>")
    with pytest.raises(InputError, match=rf":10: a DescriptorRecord without Descriptor{expected}"):
        read(path)


def test_an_id_that_comes_twice_is_named_with_both_places(written):
    with pytest.raises(InputError, match=r":17: the descriptor D006331 is there already \(.*:4\)"):
        read(written(f"{HEAD}{HEART}{HEART}</DescriptorRecordSet>"))


def test_other_xml_is_no_mesh(written):
    with pytest.raises(InputError, match="no DescriptorRecord"):
        read(written("<SupplementalRecordSet><SupplementalRecord/></SupplementalRecordSet>"))


def test_entities_are_not_expanded_and_files_not_opened(written, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("Secret")
    bad = f'<!DOCTYPE r [<!ENTITY s SYSTEM "file://{secret}"><!ENTITY t "Expanded">]>'
    record = ASPIRIN.replace("Aspirin", "Aspirin&s;&t;")
    concepts, _ = read(written(f"{bad}<DescriptorRecordSet>{record}</DescriptorRecordSet>"))
    assert concepts[0].name == "Aspirin"


def test_records_are_freed_while_reading(written, monkeypatch):
    records = "".join(HEART.replace("D006331", f"D{i}") for i in range(2000))
    path = written(f"{HEAD}{records}</DescriptorRecordSet>")
    held = []
    original = mesh_xml._descriptor
    monkeypatch.setattr(
        mesh_xml, "_descriptor", lambda record, path: held.append(len(record.getparent())) or original(record, path)
    )
    assert sum(1 for _ in mesh_xml.descriptors(path)) == 2000
    assert max(held) < 100  # what the parser has read ahead, not what it has read
