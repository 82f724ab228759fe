"""The page of the bundled models is what its command writes, in whole or with new rows for some systems."""

from pathlib import Path

from experiments.models import CANDIDATES, PAIRS, SYSTEMS, Page

PAGE = Path(__file__).parents[2] / "docs" / "models" / "README.md"


def test_the_page_is_what_the_command_writes():
    text = PAGE.read_text()
    page = Page.read(text)
    assert page.text() == text and len(page.tests) == len(PAIRS)
    assert list(page.rows) == [*(system.name for system in SYSTEMS), CANDIDATES] and all(map(any, page.rows.values()))


def test_a_row_is_put_in_place_of_that_of_its_system():
    page = Page.read(PAGE.read_text())
    new = {SYSTEMS[8].name: ["1.5", *["0.5 +", "0.25"] * 3]}
    changed = Page.read(page._replace(rows=page.rows | new).text())
    assert changed == page._replace(rows={**page.rows, **new}) and list(changed.rows) == list(page.rows)
