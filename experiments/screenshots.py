"""``python -m experiments.screenshots``: screenshots of the service's page, for docs/images.

They show the bundled sample, whose documents, authors, journals and headings are invented.
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
from rerank_plugin.encoding.index_encoder import IndexEncoder

ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
OPEN = "#hit-list .open"
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
        IndexEncoder(rp.build_index(invented(), f"{folder}/sample").forward, "ktrel").encode()
        command = [sys.executable, "-m", "rerank_plugin.serve", "--index", f"{folder}/sample", "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
            try:
                address = service.stdout.readline().strip()  # printed when the service is ready
                photograph(f"{address}/?{urlencode({'query': options.query})}", options.output)
            finally:
                service.terminate()


def invented() -> Iterator[rp.Document]:
    """The sample with metadata; every fifth document is retracted."""
    random = Random(3)
    for number, document in enumerate(documents("sample")):
        yield document._replace(
            metadata={
                "authors": random.sample(AUTHORS, random.choice((1, 3, 5, 8))),
                "journal": random.choice(JOURNALS),
                "date": f"{random.randint(1990, 2024)}-{random.randint(1, 12):02d}",
                "types": random.sample(TYPES, 2),
                "mesh": sorted(random.sample(HEADINGS, 5)),
                "retracted": number % 5 == 4,
                "url": f"https://doi.org/10.5555/{document.id}",  # a prefix for examples
            }
        )


def photograph(address: str, folder: Path) -> None:
    """Write ``page.png``, ``page-document.png`` and ``page-compared.png`` by Debian's Chromium; the last is dark."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        for _ in range(3):  # the first searches of a service are slower
            page.goto(address)
            page.wait_for_selector("#any-word:not(:empty)")
        page.wait_for_selector("[data-field=type] li")
        page.screenshot(path=folder / "page.png")
        page.locator(f"{OPEN}:has(.retracted)").first.click()
        page.click(".why > summary")
        page.wait_for_selector(".sentence")
        page.screenshot(path=folder / "page-document.png")
        page.emulate_media(color_scheme="dark")
        page.goto(f"{address}&view=compare&right=bm25,delta")
        page.wait_for_selector("#side-right .hits")
        page.screenshot(path=folder / "page-compared.png")
        browser.close()


if __name__ == "__main__":
    main()
