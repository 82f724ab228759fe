import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.knowledge.entries import Source
from rerank_plugin.knowledge.semantic_types import GROUPS, MEDICAL, NAMES, selected_types

UMLS = Source("umls", iter(()), iter(()), MEDICAL)
MESH = Source("mesh-xml", iter(()), iter(()))


def test_every_type_of_umls_has_one_of_15_groups_and_nine_groups_and_food_are_medical():
    assert len(GROUPS) == 15
    assert len(set(NAMES.values())) == len(NAMES) == sum(map(len, GROUPS.values())) == 127
    assert all(type[0] == "T" and len(type) == 4 and type[1:].isdigit() for type in NAMES)
    assert {"T047", "T121", "T061", "T168", "T028"} <= MEDICAL
    assert MEDICAL.isdisjoint({"T081", "T083", "T073", "T092", "T091", "T055"})


def test_types_are_chosen_by_number_name_group_or_file(tmp_path):
    assert (
        selected_types(None, UMLS) == MEDICAL
        and selected_types(None, MESH) is None
        and selected_types("all", UMLS) is None
    )
    assert selected_types("T047, disease OR syndrome,T191", UMLS) == {"T047", "T191"}
    assert selected_types("DEVI", UMLS) == {"T074", "T075", "T203"}
    assert selected_types("Amino Acid, Peptide, or Protein", UMLS) == {"T116"}
    assert selected_types("C,D", MESH) == {"C", "D"}
    path = tmp_path / "types.txt"
    path.write_text("# kept\nT047  # diseases\n\nAmino Acid, Peptide, or Protein\n")
    assert selected_types(str(path), UMLS) == {"T047", "T116"}


@pytest.mark.parametrize("selection", ["T999", "Diseases", ",", ""])
def test_unknown_types_are_named(selection):
    with pytest.raises(InputError, match="the types? "):
        selected_types(selection, UMLS)
