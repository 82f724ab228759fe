"""MeSH in its three formats, and invalid files."""

from pathlib import Path

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.knowledge.entries import Concept, Relation
from rerank_plugin.knowledge.sources import open_source

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
def read(put):
    """Reads a text as a file of this name, or as one of the files of a folder: its concepts and relations."""

    def reading(name, text, format="mesh-ascii"):
        path = Path(put(name, text))
        source = open_source(str(path.parent if ".tsv" in name else path))
        assert source.format == format
        return list(source.concepts), list(source.relations)

    return reading


@pytest.mark.parametrize(
    "format, name, text, relations",
    [
        *(("mesh-ascii", name, RECORDS, [RELATED, PARENT, ACTION]) for name in ("d2024.bin", "d2024.bin.gz")),
        *(("mesh-xml", name, XML, [RELATED, PARENT, ACTION]) for name in ("desc2024.xml", "desc2024.xml.gz")),
        ("mesh-xml", "no-suffix", "\ufeff  " + XML.split("\n", 1)[1], [RELATED, PARENT, ACTION]),
        *(("mesh-tsv", name, HEADER + ROWS, [PARENT]) for name in ("descriptors.tsv", "descriptors.tsv.gz")),
    ],
)
def test_all_formats_are_recognized_and_give_the_same(read, format, name, text, relations):
    assert read(name, text, format) == ([HEART, ISCHEMIA, ASPIRIN], relations)


def test_a_file_of_parents_counts_and_not_the_trees(read, put):
    put("parents.tsv", "child_ui\tparent_ui\nD017202\tD001241\nD017202\tD006331\n")
    _, relations = read("descriptors.tsv", HEADER + ROWS, "mesh-tsv")
    assert relations == [Relation("D017202", "parent", "D001241"), PARENT]


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
        ("d.bin", RECORDS.replace("*NEWRECORD", "*NEWRECORDS", 1), r":1: expected \*NEWRECORD: '\*NEWRECORDS'"),
        ("d.bin", RECORDS.replace("AQ = BL", "AQ BL"), r":4: expected KEY = value: 'AQ BL CF CI'"),
        ("d.bin", RECORDS.replace("MH = Myocardial Ischemia\n", ""), r":13: a record with 0 lines MH"),
        ("d.bin", RECORDS.replace("UI = D001241\n", "UI = D001241\nUI = D2\n"), r":23: a record with 2 lines UI"),
        ("d.bin", RECORDS.replace("D001241", "D017202"), r":23: the descriptor D017202 is repeated \(.*:13\)"),
        ("d.bin", RECORDS.replace("RECTYPE = D", "RECTYPE = C"), "no descriptor"),
        ("descriptors.tsv", HEADER.replace("synonyms", "others") + ROWS, r"tsv:1: the header lacks synonyms: exp"),
        ("descriptors.tsv", HEADER + ROWS + "D4\tToo few\n", r"tsv:5: expected 5 columns, as in the header, found 2"),
        ("descriptors.tsv", HEADER + "\tNo id\t\t\t\n", r"tsv:2: a descriptor needs an id and a name"),
        ("descriptors.tsv", HEADER + ROWS + ROWS, r"tsv:5: the descriptor D006331 is repeated \(.*:2\)"),
        ("x.xml", f"{HEAD}{XML_ASPIRIN}<DescriptorRecord>\n<UI>D1</Descriptor>", r"x\.xml:11: malformed XML"),
        ("x.xml", f"{HEAD}{XML_HEART}{XML_ISCHEMIA}", "malformed XML"),  # cut off: no smaller vocabulary
        (
            "x.xml",
            XML.replace("<DescriptorUI>D001241</DescriptorUI><Desc", "<Desc"),
            r":\d+: a .* without DescriptorUI",
        ),
        ("x.xml", XML.replace("<String>Heart Diseases</String>", "", 1), ":4: a .* without DescriptorName"),
        ("x.xml", f"{HEAD}{XML_ASPIRIN * 2}{END}", r":10: the descriptor D001241 is repeated \(.*:4\)"),
        ("x.xml", "<SupplementalRecordSet><SupplementalRecord/></SupplementalRecordSet>", "no DescriptorRecord"),
        ("parents.tsv", "child_ui\tparent_ui\nD2\t\n", r"parents.tsv:2: the child or the parent is empty"),
        ("parents.tsv", "child\tparent\nD2\tD1\n", r"parents.tsv:1: the header lacks child_ui, parent_ui"),
        ("parents.tsv", "child_ui\tparent_ui\tchild_ui\nD2\tD1\tD3\n", r"parents.tsv:1: the header names a column tw"),
    ],
)
def test_malformed_lines_are_named(put, name, text, message):
    put("descriptors.tsv", HEADER + ROWS)
    path = Path(put(name, text))
    source = open_source(str(path.parent if ".tsv" in name else path))
    with pytest.raises(InputError, match=message):
        list(source.concepts)


def test_a_truncated_gzip_is_an_error(put):
    path = Path(put("desc2024.xml.gz", f"{HEAD}{XML_HEART}{END}"))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="desc2024.xml.gz: damaged gzip file"):
        list(open_source(str(path)).concepts)


def test_entities_are_not_expanded_and_files_not_opened(read, put):
    bad = f'<!DOCTYPE r [<!ENTITY s SYSTEM "file://{put("secret", "Secret")}"><!ENTITY t "Expanded">]>'
    record = XML_ASPIRIN.replace("Aspirin", "Aspirin&s;&t;")
    concepts, _ = read("x.xml", f"{bad}<DescriptorRecordSet>{record}{END}", "mesh-xml")
    assert concepts[0].name == "Aspirin"
