"""``python -m experiments.screenshots``: pictures of the page in both themes, for docs/images.

They show the bundled sample, whose documents are invented, with authors, journals and headings that are invented, too.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from urllib.parse import urlencode

import rerank_plugin as rp
from rerank_plugin.corpora import documents

ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
OPEN = "#side-right .open"
AUTHORS = "Achterberg M,Brandt C,Haddad HA,Iyer DJ,Lindqvist S,Moreau P,Novak D,Okafor B,Rossi GM,Tanaka E".split(",")
JOURNALS = ("Ann Sample Med", "Example Heart J", "Invented J Cardiol")
HEADINGS = (
    "Aspirin", "Female", "Heart Failure, Systolic", "Humans", "Myocardial Infarction",
    "Platelet Aggregation Inhibitors", "Secondary Prevention", "Treatment Outcome",
)  # fmt: skip
TYPES = ("Journal Article", "Multicenter Study", "Randomized Controlled Trial", "Review")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--query", default="heart attack aspirin")
    parser.add_argument("--output", type=Path, default=Path("docs/images"), metavar="FOLDER")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        rp.build_index(invented(), f"{folder}/sample")
        command = [sys.executable, "-m", "rerank_plugin.serve", "--index", f"{folder}/sample", "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
            try:
                address = service.stdout.readline().strip()  # which is printed when it is ready
                photograph(f"{address}/?{urlencode({'query': options.query})}", options.output)
            finally:
                service.terminate()


def invented() -> Iterator[rp.Document]:
    """The sample with metadata; every fifth document is retracted."""
    chance = Random(3)
    for at, one in enumerate(documents("sample")):
        yield one._replace(
            metadata={
                "authors": chance.sample(AUTHORS, chance.choice((1, 3, 5, 8))),
                "journal": chance.choice(JOURNALS),
                "date": f"{chance.randint(1990, 2024)}-{chance.randint(1, 12):02d}",
                "types": chance.sample(TYPES, 2),
                "mesh": sorted(chance.sample(HEADINGS, 5)),
                "retracted": at % 5 == 4,
                "url": f"https://doi.org/10.5555/{one.id}",  # a prefix for examples
            }
        )


def photograph(address: str, folder: Path) -> None:
    """Write ``page-THEME.png``, ``page-document-THEME.png`` and ``explanation-THEME.png`` of both themes, as Debian's
    Chromium shows them."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        for theme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=theme)
            for _ in range(3):  # the first times are of a service that has not searched yet
                page.goto(address)
                page.wait_for_selector(OPEN)
            page.screenshot(path=folder / f"page-{theme}.png")
            page.locator(f"{OPEN}:has(.retracted)").first.click()
            page.wait_for_selector(".sentence")
            page.screenshot(path=folder / f"page-document-{theme}.png")
            page.keyboard.press("Escape")
            page.locator(OPEN).first.click()
            page.locator(".matrix").scroll_into_view_if_needed()
            page.locator(".matrix td[tabindex='0']").focus()
            page.screenshot(path=folder / f"explanation-{theme}.png")
        browser.close()


if __name__ == "__main__":
    main()
