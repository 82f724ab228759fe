"""What tests of the page share: the documents, and steps in a browser. The fixtures are in ``conftest.py``."""

import shutil
from urllib.parse import parse_qs, urlparse

import pytest

import rerank_plugin as rp

CHROMIUM = shutil.which("chromium")
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
HOSTILE = (
    rp.Document("script", "<script>window.bad = 1</script> statins", "<video src=x onerror='window.bad = 1'> Statins."),
    rp.Document("rtl", "الستاتينات statins", "تخفض statins الكوليسترول."),
    rp.Document("untitled", "", "Statins lower cholesterol in an abstract without a title."),
    rp.Document("long", "Statins" + "andothers" * 60, "Statins 🙂 and statins lower LDL cholesterol."),
    rp.Document("noticed", "A structured trial", "BACKGROUND: 🙂 Why. METHODS (A): We looked."),
    *(rp.Document(f"d{n}", f"Cholesterol {n}", "Statins lower cholesterol. " * n) for n in range(1, 15)),
)
METADATA = {
    "script": {
        "authors": ["<b>One</b> A", "Two B", "Three C", *(f"Author {n}" for n in range(10))],
        "journal": "<i>J</i> Statins", "languages": ["ger"], "types": ["Meta-Analysis"],
        "mesh": ["Cholesterol, LDL", "Humans"], "retracted": True, "url": "https://pubmed.ncbi.nlm.nih.gov/1/",
        "doi": "10.1000/x#1",
    },
    "rtl": {"authors": ["One A"], "retracted": False, "url": "http://www.ncbi.nlm.nih.gov/pubmed/25329299"},
    "noticed": {
        "authors": ["Müller K"], "journal": "J Tests", "languages": ["spa"], "types": ["Systematic Review"],
        "mesh": ["Humans"], "notices": ["Erratum in: J Tests. 2020;1(2):3. PMID: 12"],
        "original_title": "Un ensayo", "other_abstract": "ANTECEDENTES: Por qué. MÉTODOS: Miramos.",
    },
    "long": {"url": "https://doi.org.example.org/10.1000/x"},
}  # fmt: skip
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's Chromium: apt-get install chromium")


def small(page):
    page.set_viewport_size({"width": 360, "height": 800})


def accessible(page):
    """Whether nothing is wider than the window; fails if axe-core finds a violation."""
    assert (found := violations(page)) == [], found
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def violations(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    return [
        (violation["id"], violation["nodes"][0]["html"]) for violation in axe.Axe().run(page).response["violations"]
    ]


def search(page, address, parameters="?query=the+statins", shown="#hit-list .hits > li"):
    page.goto(f"{address}/{parameters}")
    page.wait_for_selector(shown)


def open_document(page, hit="#hit-list .hits > li", nth=0):
    page.locator(f"{hit} .open").nth(nth).click()
    page.wait_for_selector("dialog .abstract")


def wait_for_address(page, name, values):
    """Playwright sees a changed address a moment after the page."""
    page.wait_for_url(lambda url: parse_qs(urlparse(url).query).get(name, []) == values)


def documents(page, within="#hit-list"):
    return page.eval_on_selector_all(f"{within} .hits > li", "rows => rows.map(row => row.dataset.docid)")
