"""``python -m experiments.screenshots``: pictures of the page of a running service, in both themes, for docs/images."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from urllib.parse import urlencode

ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
OPEN = "#side-right .open"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default="http://localhost:8080", help="of the service")
    parser.add_argument("--query", default="heart attack aspirin")
    parser.add_argument("--index", default="", help="its default one where none is named")
    parser.add_argument("--output", type=Path, default=Path("docs/images"), metavar="FOLDER")
    options = parser.parse_args()
    shown = {"query": options.query} | ({"index": options.index} if options.index else {})
    photograph(f"{options.address}/?{urlencode(shown)}", options.output)


def photograph(address: str, folder: Path) -> None:
    """Write ``page-THEME.png`` and ``explanation-THEME.png`` of both themes, as Debian's Chromium shows them."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        for theme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=theme)
            page.goto(address)
            page.wait_for_selector(OPEN)
            page.screenshot(path=folder / f"page-{theme}.png")
            page.locator(OPEN).first.click()
            page.locator(".matrix").scroll_into_view_if_needed()
            page.locator(".matrix td[tabindex='0']").focus()
            page.screenshot(path=folder / f"explanation-{theme}.png")
        browser.close()


if __name__ == "__main__":
    main()
