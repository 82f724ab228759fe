"""Live services and a browser, for all tests that do not change them."""

from urllib.parse import urlparse

import pytest

import rerank_plugin as rp
from rerank_plugin.encoding.index_encoder import IndexEncoder
from rerank_plugin.service.config import ServiceConfig
from tests.service.browser import ARGUMENTS, CHROMIUM, HOSTILE, METADATA
from tests.service.live import serving


@pytest.fixture(scope="session")
def service(index_folder, tmp_path_factory):
    """A client of the service, which has a click log."""
    rerankers = {"delta": "delta", "titles": "bm25-title"}
    click_log = tmp_path_factory.mktemp("service") / "clicks.tsv"
    with serving(
        ServiceConfig({"small": str(index_folder)}, rerankers, deadline=60, click_log=str(click_log))
    ) as client:
        yield client


@pytest.fixture(scope="session")
def click_log(tmp_path_factory):
    return tmp_path_factory.mktemp("clicks") / "clicks.tsv"


@pytest.fixture(scope="session")
def indexes(tmp_path_factory):
    """The folder of an encoded index of `HOSTILE`, whose dates are 2000 and each year after it."""
    folder = str(tmp_path_factory.mktemp("page") / "index")
    dated = [
        document._replace(metadata=METADATA.get(document.id, {}) | {"date": f"{2000 + place}-03"})
        for place, document in enumerate(HOSTILE)
    ]
    IndexEncoder(rp.build_index(dated, folder).forward, "ktrel").encode()
    return {"statins": folder}


@pytest.fixture(scope="session")
def address(indexes, click_log):
    """The address of a service of `indexes` with a click log."""
    with serving(ServiceConfig(indexes, {"delta": "delta"}, deadline=60, click_log=str(click_log))) as client:
        yield str(client.base_url)


@pytest.fixture(scope="module")  # its event loop runs in the thread of the tests
def browser():
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture
def page(browser):
    """A page that fails its test if a script fails, the policy is violated, or another host is requested."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page, faults, hosts = context.new_page(), [], set()
    page.set_default_timeout(20_000)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda line: "Content Security Policy" in line.text and faults.append(line.text))
    page.on("request", lambda request: hosts.add(urlparse(request.url).hostname))
    yield page
    context.close()
    assert not faults and hosts <= {"127.0.0.1", None}
