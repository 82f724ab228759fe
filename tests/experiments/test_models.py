"""The page of the bundled models, whose rows a command measures one by one."""

from pathlib import Path

from experiments.models import SYSTEMS, tabled, with_row

PAGE = Path(__file__).parents[2] / "docs" / "models" / "README.md"


def test_a_row_is_put_in_place_of_that_of_its_system():
    text = PAGE.read_text()
    rows = tabled(text)
    assert list(rows) == [system.name for system in SYSTEMS] and all(map(all, rows.values()))
    new = [SYSTEMS[8].name, "1.5", *["0.5 +", "0.25"] * 3]
    changed = with_row(text, new)
    assert tabled(changed) == {**rows, SYSTEMS[8].name: new}
    assert with_row(changed, rows[SYSTEMS[8].name]) == text
