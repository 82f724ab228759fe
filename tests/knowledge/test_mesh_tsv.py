import gzip

import pytest

from rerank_plugin.files.errors import InputError
from rerank_plugin.knowledge import mesh_tsv
from rerank_plugin.knowledge.entries import Concept, Relation

HEADER = "descriptor_ui\tname\tsynonyms\ttree_numbers\tparents\n"
ROWS = (
    "D1\tHeart Diseases\tCardiac Diseases|Diseases, Cardiac|Heart Diseases\tC14.280\t\n"
    "D2\tMyocardial Ischemia\t\tC14.280.647|C23.1\tD1\n"
    "D3\tMaladie de Crohn\tCrohn’s  disease|\t\t\n"
)
PARENTS = "child_ui\tparent_ui\nD2\tD3\nD2\tD1\n"


@pytest.fixture
def read(tmp_path):
    def reading(descriptors, parents=None, packed=False):
        data = descriptors.encode()
        name = "descriptors.tsv.gz" if packed else "descriptors.tsv"
        (tmp_path / name).write_bytes(gzip.compress(data) if packed else data)
        if parents is not None:
            (tmp_path / "parents.tsv").write_text(parents)
        source = mesh_tsv.source(tmp_path)
        return list(source.concepts), list(source.relations)

    return reading


@pytest.mark.parametrize("packed", [False, True])
def test_columns_are_read_by_name_and_parents_from_their_file(read, packed):
    concepts, relations = read(HEADER + ROWS, PARENTS, packed)
    assert concepts == [
        Concept("D1", "Heart Diseases", ("Cardiac Diseases", "Diseases, Cardiac"), ("C",)),
        Concept("D2", "Myocardial Ischemia", (), ("C",)),
        Concept("D3", "Maladie de Crohn", ("Crohn’s disease",), ()),
    ]
    assert relations == [Relation("D2", "parent", "D3"), Relation("D2", "parent", "D1")]


def test_without_a_file_of_parents_they_follow_from_the_trees(read):
    assert read(HEADER + ROWS)[1] == [Relation("D2", "parent", "D1")]


@pytest.mark.parametrize(
    "descriptors, parents, message",
    [
        (HEADER.replace("synonyms", "others") + ROWS, None, r"tsv:1: the header lacks synonyms"),
        (HEADER + ROWS + "D4\tToo few\n", None, r"tsv:5: 2 fields, the header has 5"),
        (HEADER + "\tNo id\t\t\t\n", None, r"tsv:2: a descriptor needs an id and a name"),
        (HEADER + ROWS + "D1\tAgain\t\t\t\n", None, r"tsv:5: the descriptor D1 is there already \(.*:2\)"),
        (HEADER + ROWS, "child_ui\tparent_ui\nD2\t\n", r"parents.tsv:2: a child and a parent"),
        (HEADER + ROWS, "child\tparent\nD2\tD1\n", r"parents.tsv:1: the header lacks child_ui and parent_ui"),
    ],
)
def test_what_is_malformed_is_named_with_its_line(read, descriptors, parents, message):
    with pytest.raises(InputError, match=message):
        read(descriptors, parents)
