"""MeSH in its three formats, and what is said of files that are none."""

import gzip

import pytest

from rerank_plugin.files.errors import InputError
from rerank_plugin.knowledge import mesh
from rerank_plugin.knowledge.entries import Concept, Relation

HEART = Concept("D006331", "Heart Diseases", ("Cardiac Diseases", "Diseases, Cardiac"), ("C", "X"))
ISCHEMIA = Concept("D017202", "Myocardial Ischemia", ("Ischämie", "Ischemic Heart Disease"), ("C", "Q"))
ASPIRIN = Concept("D001241", "Aspirin")
PARENT = Relation("D017202", "parent", "D006331")
RELATED = Relation("D006331", "related", "D001241")
ACTION = Relation("D001241", "pharmacological action", "D006331")

RECORDS = """*NEWRECORD
RECTYPE = D
MH = Heart Diseases
AQ = BL CF CI
PRINT ENTRY = Cardiac Diseases|T047|NON|EQV|NLM (1966)|abcdef
ENTRY = Diseases, Cardiac
MN = C14.280
MN = X9.1
FX = Aspirin
MS = Pathological conditions involving the HEART = including its structural abnormalities.
UI = D006331

*NEWRECORD
RECTYPE = D
MH = Myocardial Ischemia
ENTRY = Ischämie|T047|NON|EQV|UNK (19XX)|900308|abbcdef
ENTRY = Ischemic Heart Disease
ENTRY = Myocardial Ischemia
MN = C14.280.647
MN = Q3.5
UI = D017202

*NEWRECORD
RECTYPE = D
MH = Aspirin
PA = Heart Diseases
UI = D001241

*NEWRECORD
RECTYPE = Q
SH = diagnosis
UI = Q000175
"""
HEADER = "descriptor_ui\tname\tsynonyms\ttree_numbers\tparents\n"
ROWS = (
    "D006331\tHeart Diseases\tCardiac  Diseases|Diseases, Cardiac|Heart Diseases\tC14.280|X9.1\t\n"
    "D017202\tMyocardial Ischemia\tIschämie|Ischemic Heart Disease|\tC14.280.647|Q3.5\tD1\n"
    "D001241\tAspirin\t\t\t\n"
)
HEAD = """<?xml version="1.0"?>
<!DOCTYPE DescriptorRecordSet SYSTEM "https://www.nlm.nih.gov/databases/dtd/nlmdescriptorrecordset_20240101.dtd">
<DescriptorRecordSet LanguageCode = "eng">
"""
END = "</DescriptorRecordSet>"
XML_HEART = """<DescriptorRecord DescriptorClass = "1">
 <DescriptorUI>D006331</DescriptorUI>
 <DescriptorName><String>Heart Diseases</String></DescriptorName>
 <SeeRelatedList><SeeRelatedDescriptor><DescriptorReferredTo><DescriptorUI>D001241</DescriptorUI>
  <DescriptorName><String>Aspirin</String></DescriptorName></DescriptorReferredTo></SeeRelatedDescriptor>
 </SeeRelatedList>
 <TreeNumberList><TreeNumber>C14.280</TreeNumber><TreeNumber>X9.1</TreeNumber></TreeNumberList>
 <ConceptList><Concept PreferredConceptYN="Y"><ConceptUI>M0010060</ConceptUI>
  <ConceptName><String>Heart Diseases</String></ConceptName>
  <TermList>
   <Term ConceptPreferredTermYN="Y" IsPermutedTermYN="N" LexicalTag="NON" RecordPreferredTermYN="Y">
    <TermUI>T019193</TermUI><String>Heart Diseases</String></Term>
   <Term><String>Cardiac Diseases</String></Term>
   <Term ConceptPreferredTermYN="N" IsPermutedTermYN="Y" LexicalTag="NON" RecordPreferredTermYN="N">
    <TermUI>T019193</TermUI><String>Diseases, Cardiac</String></Term>
  </TermList></Concept></ConceptList>
</DescriptorRecord>
"""
XML_ISCHEMIA = """<DescriptorRecord DescriptorClass = "1">
 <DescriptorUI>D017202</DescriptorUI>
 <DescriptorName><String>Myocardial Ischemia</String></DescriptorName>
 <TreeNumberList><TreeNumber>C14.280.647</TreeNumber><TreeNumber>Q3.5</TreeNumber></TreeNumberList>
 <ConceptList>
  <Concept PreferredConceptYN="Y"><TermList><Term><String>Myocardial Ischemia</String></Term>
   <Term><String>Isch&#xE4;mie</String></Term></TermList></Concept>
  <Concept PreferredConceptYN="N"><TermList><Term><String>Ischemic  Heart
   Disease</String></Term><Term><String>Myocardial Ischemia</String></Term></TermList></Concept>
 </ConceptList>
</DescriptorRecord>
"""
XML_ASPIRIN = """<DescriptorRecord DescriptorClass = "1">
 <DescriptorUI>D001241</DescriptorUI><DescriptorName><String>Aspirin</String></DescriptorName>
 <PharmacologicalActionList><PharmacologicalAction><DescriptorReferredTo><DescriptorUI>D006331</DescriptorUI>
  <DescriptorName><String>Heart Diseases</String></DescriptorName></DescriptorReferredTo>
 </PharmacologicalAction></PharmacologicalActionList>
</DescriptorRecord>
"""
XML = f"{HEAD}{XML_HEART}{XML_ISCHEMIA}{XML_ASPIRIN}{END}"


@pytest.fixture
def read(tmp_path):
    """Reads a text as a file of this name."""

    def reading(name, text, parents=None):
        data = text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        if parents is not None:
            (tmp_path / "parents.tsv").write_text(parents)
        if "tsv" in name:
            source = mesh.tsv_source(tmp_path)
        else:
            source = (mesh.xml_source if "xml" in name else mesh.ascii_source)(tmp_path / name)
        return list(source.concepts), list(source.relations)

    return reading


@pytest.mark.parametrize(
    "name, text, relations",
    [
        ("d2024.bin", RECORDS, [RELATED, PARENT, ACTION]),
        ("d2024.bin.gz", RECORDS, [RELATED, PARENT, ACTION]),
        ("desc2024.xml", XML, [RELATED, PARENT, ACTION]),
        ("desc2024.xml.gz", XML, [RELATED, PARENT, ACTION]),
        ("descriptors.tsv", HEADER + ROWS, [PARENT]),
        ("descriptors.tsv.gz", HEADER + ROWS, [PARENT]),
    ],
)
def test_all_formats_give_the_same(read, name, text, relations):
    assert read(name, text) == ([HEART, ISCHEMIA, ASPIRIN], relations)


def test_a_file_of_parents_counts_and_not_the_trees(read):
    parents = "child_ui\tparent_ui\nD017202\tD001241\nD017202\tD006331\n"
    assert read("descriptors.tsv", HEADER + ROWS, parents)[1] == [Relation("D017202", "parent", "D001241"), PARENT]


def test_a_heading_that_is_not_there_relates_to_nothing(read):
    _, relations = read("d2024.bin", RECORDS.replace("PA = Heart Diseases", "PA = Heart Diseases\nPA = Nothing"))
    assert relations[-2:] == [ACTION, Relation("D001241", "pharmacological action", "")]


def test_places_in_several_trees(read, caplog):
    def relations(*records):
        text = "".join(f"*NEWRECORD\nMH = N{i}\n{numbers}UI = D{i}\n" for i, numbers in enumerate(records))
        return read("d2024.bin", text)[1]

    cycle = relations("MN = A01\nMN = B01.1\n", "MN = A01.1\nMN = B01\n")
    assert cycle == [Relation("D0", "parent", "D1"), Relation("D1", "parent", "D0")]
    taken = relations("MN = A01\n", "MN = A01\n", "MN = A01.1\n")  # a number of two descriptors stays with the first
    assert taken == [Relation("D2", "parent", "D0")]
    assert "A01 belongs to D0, not also to D1" in caplog.text


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("d.bin", RECORDS.replace("*NEWRECORD\n", "", 1), r":1: expected \*NEWRECORD: 'RECTYPE = D'"),
        ("d.bin", RECORDS.replace("AQ = BL", "AQ BL"), r":4: expected KEY = value: 'AQ BL CF CI'"),
        ("d.bin", RECORDS.replace("MH = Myocardial Ischemia\n", ""), r":13: a record with 0 lines MH"),
        ("d.bin", RECORDS.replace("UI = D001241\n", "UI = D001241\nUI = D2\n"), r":23: a record with 2 lines UI"),
        ("d.bin", RECORDS.replace("D001241", "D017202"), r":23: the descriptor D017202 is there already \(.*:13\)"),
        ("d.bin", RECORDS.replace("RECTYPE = D", "RECTYPE = C"), "no descriptor"),
        ("descriptors.tsv", HEADER.replace("synonyms", "others") + ROWS, r"tsv:1: the header lacks synonyms: exp"),
        ("descriptors.tsv", HEADER + ROWS + "D4\tToo few\n", r"tsv:5: expected 5 columns, as in the header, found 2"),
        ("descriptors.tsv", HEADER + "\tNo id\t\t\t\n", r"tsv:2: a descriptor needs an id and a name"),
        ("descriptors.tsv", HEADER + ROWS + ROWS, r"tsv:5: the descriptor D006331 is there already \(.*:2\)"),
        ("x.xml", f"{HEAD}{XML_ASPIRIN}<DescriptorRecord>\n<UI>D1</Descriptor>", r"x\.xml:11: malformed XML"),
        ("x.xml", f"{HEAD}{XML_HEART}{XML_ISCHEMIA}", "malformed XML"),  # cut off: no smaller vocabulary
        (
            "x.xml",
            XML.replace("<DescriptorUI>D001241</DescriptorUI><Desc", "<Desc"),
            r":\d+: a .* without DescriptorUI",
        ),
        ("x.xml", XML.replace("<String>Heart Diseases</String>", "", 1), ":4: a .* without DescriptorName"),
        ("x.xml", f"{HEAD}{XML_ASPIRIN * 2}{END}", r":10: the descriptor D001241 is there already \(.*:4\)"),
        ("x.xml", "<SupplementalRecordSet><SupplementalRecord/></SupplementalRecordSet>", "no DescriptorRecord"),
    ],
)
def test_what_is_malformed_is_named_with_its_line(read, name, text, message):
    with pytest.raises(InputError, match=message):
        read(name, text)


@pytest.mark.parametrize(
    "parents, message",
    [
        ("child_ui\tparent_ui\nD2\t\n", r"parents.tsv:2: a child and a parent"),
        ("child\tparent\nD2\tD1\n", r"parents.tsv:1: the header lacks child_ui, parent_ui"),
        ("child_ui\tparent_ui\tchild_ui\nD2\tD1\tD3\n", r"parents.tsv:1: the header names a column twice"),
    ],
)
def test_malformed_parents_are_named_with_their_line(read, parents, message):
    with pytest.raises(InputError, match=message):
        read("descriptors.tsv", HEADER + ROWS, parents)


def test_a_truncated_gzip_is_an_error(tmp_path):
    path = tmp_path / "desc2024.xml.gz"
    path.write_bytes(gzip.compress(f"{HEAD}{XML_HEART * 500}{END}".encode())[:-20])
    with pytest.raises(InputError, match="desc2024.xml.gz: damaged gzip file"):
        list(mesh._of_xml(path))


def test_entities_are_not_expanded_and_files_not_opened(read, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("Secret")
    bad = f'<!DOCTYPE r [<!ENTITY s SYSTEM "file://{secret}"><!ENTITY t "Expanded">]>'
    record = XML_ASPIRIN.replace("Aspirin", "Aspirin&s;&t;")
    concepts, _ = read("x.xml", f"{bad}<DescriptorRecordSet>{record}{END}")
    assert concepts[0].name == "Aspirin"


def test_records_are_freed_while_reading(tmp_path, monkeypatch):
    (tmp_path / "x.xml").write_text(HEAD + "".join(XML_HEART.replace("D006331", f"D{i}") for i in range(2000)) + END)
    held = []
    original = mesh._of_record
    monkeypatch.setattr(
        mesh, "_of_record", lambda record, path: held.append(len(record.getparent())) or original(record, path)
    )
    assert sum(1 for _ in mesh._of_xml(tmp_path / "x.xml")) == 2000
    assert max(held) < 100  # what the parser has read ahead, not what it has read
