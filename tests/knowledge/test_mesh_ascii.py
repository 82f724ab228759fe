import pytest

from rerank_plugin.files.errors import InputError
from rerank_plugin.knowledge import mesh_ascii
from rerank_plugin.knowledge.entries import Concept, Relation

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
ENTRY = Myocardial Ischemia
MN = C14.280.647
MN = Q3.5
UI = D017202

*NEWRECORD
RECTYPE = D
MH = Aspirin
PA = Heart Diseases
PA = Nothing That Is Here
UI = D001241

*NEWRECORD
RECTYPE = Q
SH = diagnosis
UI = Q000175
"""


@pytest.fixture
def read(tmp_path):
    def reading(text):
        path = tmp_path / "d2024.bin"
        path.write_text(text, encoding="utf-8")
        source = mesh_ascii.source(path)
        return list(source.concepts), list(source.relations)

    return reading


def test_headings_entries_trees_and_references_are_read(read):
    concepts, relations = read(RECORDS)
    assert concepts == [
        Concept("D006331", "Heart Diseases", ("Cardiac Diseases", "Diseases, Cardiac"), ("C", "X")),
        Concept("D017202", "Myocardial Ischemia", ("Ischämie",), ("C", "Q")),
        Concept("D001241", "Aspirin", (), ()),
    ]
    assert relations == [
        Relation("D006331", "related", "D001241"),
        Relation("D017202", "parent", "D006331"),
        Relation("D001241", "pharmacological action", "D006331"),
        Relation("D001241", "pharmacological action", ""),
    ]


@pytest.mark.parametrize(
    "change, message",
    [
        (("*NEWRECORD\n", ""), r":1: expected \*NEWRECORD: 'RECTYPE = D'"),
        (("AQ = BL CF CI", "AQ BL CF CI"), r":4: expected KEY = value: 'AQ BL CF CI'"),
        (("MH = Myocardial Ischemia\n", ""), r":13: a record with 0 lines MH"),
        (("UI = D001241\n", "UI = D001241\nUI = D2\n"), r":22: a record with 2 lines UI"),
        (("UI = D001241", "UI = D017202"), r":22: the descriptor D017202 is there already \(.*:13\)"),
        (("RECTYPE = D", "RECTYPE = C"), "no descriptor"),
    ],
)
def test_what_is_malformed_is_named_with_its_line(read, change, message):
    old, new = change
    text = RECORDS.replace(old, new) if old == "RECTYPE = D" else RECORDS.replace(old, new, 1)
    with pytest.raises(InputError, match=message):
        read(text)


def test_a_cycle_through_two_trees_is_two_relations(read):
    first = "*NEWRECORD\nMH = One\nMN = A01\nMN = B01.1\nUI = D1\n"
    second = "*NEWRECORD\nMH = Two\nMN = A01.1\nMN = B01\nUI = D2\n"
    assert read(first + second)[1] == [Relation("D1", "parent", "D2"), Relation("D2", "parent", "D1")]


def test_a_tree_number_of_two_descriptors_stays_with_the_first(read, caplog):
    records = "".join(f"*NEWRECORD\nMH = N{i}\nMN = {mn}\nUI = D{i}\n" for i, mn in enumerate(("A01", "A01", "A01.1")))
    assert read(records)[1] == [Relation("D2", "parent", "D0")]
    assert "A01 belongs to D0, not also to D1" in caplog.text
