"""What several folders of tests share: a small collection, an index of it built with real Lucene, and the real data.

The JVM starts in the process of the tests and stays there, so no test may fork after it; subprocesses are fine.
"""

import gzip
import logging
import os
import shutil
import sys
import tempfile
from functools import cache
from importlib import import_module
from pathlib import Path
from urllib.error import URLError

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

import rerank_plugin
from rerank_plugin.__main__ import COMMANDS
from rerank_plugin.corpora import Document, Problems
from tests import fast, java_archive
from tests.processes import status_of

REAL_DATA = Path(rerank_plugin.__file__).parents[1].parent / "shared" / "data"
MANY_EXAMPLES = 2000  # of a property, with --hypothesis-profile thorough
# What the machine or the place of the project lacks, and no installation gives. Any other reason to skip a test fails a
# run with SKIPS=refused, which .ci/run asks for.
MAY_BE_SKIPPED = (
    "needs a GPU", "'onnx'", "make docs installs it", "../shared/data", "are not recorded for", "no package registry",
    "address of IPv6", "only root",
)  # fmt: skip

# Where Python keeps no bytecode, each of the many processes that the tests start would compile the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# All files of an index are synced to the disk, a third of a second each time, which is nothing in memory.
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC and shutil.disk_usage(MEMORY).free > 8 << 30:
    os.environ.setdefault("TMPDIR", str(MEMORY))
    tempfile.tempdir = None
# The tests start Java many times and for little: compiling and collecting garbage in the background costs more than it
# gives. Processes that they start inherit this.
os.environ.setdefault("RERANK_PLUGIN_JVM_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
# With a worker on each processor, threads that wait for each other take most of the time. It is read when the first
# library with compiled loops is imported; tests of several threads ask for them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Whichever test is the first to call a kernel may expect no warning.
logging.getLogger("rerank_plugin.kernels.compiling").disabled = True
os.environ.setdefault("OPENAI_API_KEY", "none")  # Pyserini 1.5 to 2.0, when its searcher is imported, wants one

# Properties run beside Java's start and on busy machines: only what they find may fail them, never how long they took.
# The default tries the same examples every time; --hypothesis-profile thorough tries others, and more of them.
settings.register_profile("ci", deadline=None, print_blob=True, max_examples=60, derandomize=True)
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=MANY_EXAMPLES)
settings.load_profile("ci")

DOCUMENTS = (
    Document("1", "Aspirin and the prevention of heart attack", "Low-dose aspirin (81 mg) in 31,236 women: 5% fewer."),
    Document("10", "Aspirin resistance in diabetes", "We studied 412 patients with type-2 diabetes, 1995-2003."),
    Document("100", "", "An abstract without a title about renal failure after transplantation."),
    Document("2", "A title without an abstract: hepatic fibrosis", ""),
    Document("20", "β-catenin signalling in colorectal cancer", "Nuclear β-catenin rose 3.5-fold; TGF-β1 did not."),
    Document("200", "TNF-α blockade", "Anti-TNF-α antibodies in Crohn's disease (p<0.001; 95% CI 0.38–0.55)."),
    Document("3", "TNFα and IL-6", "TNF-alpha and IL6 in sepsis. IL-6 predicts death."),
    Document("30", "p53 mutations", "p53 p53 p53 p53 p53: the most mutated gene. Mutant p53 gains function."),
    Document("300", "Cancer cancer cancer", "Cancer."),
    Document("4", "Diabetes mellitus type 2", "Insulin resistance precedes diabetes. Insulin, insulin, insulin!"),
    Document("40", "Exposure to PM2.5 and asthma", "A rise of 10 µg/m³ (≈10⁻⁵ g) in PM2.5 worsens asthma in children."),
    Document("400", "Sjögren's syndrome and ﬁbromyalgia", "Overlap is common; naïve patients fatigued more."),
    Document("5", "糖尿病", "Two words of Chinese in the title, English here: glycaemic control 🙂."),
    Document("50", "!!!", "—"),
    Document("500", "Costs", "Care cost $1,200 a year in 1999, $2,050.50 in 2009 and £900 in 2103."),
    Document("a", "Migraine", "Migraine with aura doubles the risk of stroke."),
    Document("B", "Stroke in the young", "Stroke, migraine and oral contraceptives: a case-control study."),
    Document("b", "Stroke rehabilitation", "Mirror therapy helps the arm after stroke."),
    Document("aa", "Vitamin D", "25(OH)D below 20 ng/ml. Vitamin D3 at 2000 IU."),
    Document("ab", "Vitamin B12 deficiency", "B12, folate and homocysteine in vegans."),
    Document("MED-1", "Statins and cholesterol", "Statins lower LDL cholesterol by 30%."),
    Document("MED-10", "Statins and muscle pain", "Myalgia on statins was as common as on placebo (½ of all)."),
    Document("MED-100", "Dietary fat and cholesterol", "Eggs raise LDL cholesterol a little."),
    Document("MED-2", "Red meat and colorectal cancer", "Processed meat raises the risk of colorectal cancer."),
    Document("MED-20", "Breast cancer and soy", "Soy isoflavones and breast cancer recurrence in women."),
    Document("MED-200", "Breast feeding", "Breast feeding lowers the risk of breast cancer."),
    Document("doc_with_a_rather_long_identifier_0001", "Malaria vaccines", "RTS,S protects children from malaria."),
    Document("doc_with_a_rather_long_identifier_0002", "Malaria nets", "Bed nets protect children from malaria."),
    Document("é", "Dengue", "Dengue fever in Réunion: 1,234 cases, 12 deaths."),
    Document("ζ9", "Zika virus", "Zika virus and microcephaly in Brazil, 2015–2016."),
    Document("0", "COVID-19", "SARS-CoV-2 spreads in aerosols. COVID-19 vaccines protect; vaccines are safe."),
    Document("00", "COVID-19 and anosmia", "Loss of smell precedes cough in COVID-19."),
    Document("000", "Influenza vaccines", "Influenza vaccines protect the old less than the young."),
    Document("7", "Aspirin, aspirin and again aspirin", "Aspirin."),
    Document("70", "Renal failure", "Renal failure and diabetes: dialysis or transplantation?"),
    Document("77", "Heart failure", "Heart failure with preserved ejection fraction, e.g. in women of the U.S.A."),
    Document("777", "Heart rate variability", "Heart rate variability falls before heart failure worsens."),
    Document("x.1", "Twins", "These twins share every word."),
    Document("x.10", "Twins", "These twins share every word."),
    Document("x.2", "Twins", "These twins share every word."),
)


def pytest_addoption(parser):
    parser.addoption("--fast", action="store_true", help="skip what needs Java, a browser, clients or processes")


class OneWorkerForTheCluster(LoadFileScheduling):
    """Tests go to workers by files, and those of the cluster together: Ray starts once, and a shard's processes."""

    def _split_scope(self, nodeid):
        return "cluster" if nodeid.startswith("tests/cluster/") else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return OneWorkerForTheCluster(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_configure(config):
    """With several workers, Java's archive is made first, for all of them: it takes as long as a few starts of Java."""
    if config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput") and not config.getoption("--fast"):
        folder = Path(tempfile.mkdtemp(prefix="java-"))
        config.add_cleanup(lambda: shutil.rmtree(folder))
        java_archive.make(folder)


def pytest_collection(session):
    if session.config.getoption("--fast"):
        fast.leave_out()


def pytest_collection_modifyitems(config, items):
    """Whole commands first, which take longest, so that all workers are busy until the end; more random examples where
    they are asked for; and no tests marked ``real_data`` where the judged collections are not there.
    """
    items.sort(key=lambda item: item.path.parent != Path(__file__).parent)
    if config.getoption("--hypothesis-profile") == "thorough":
        for item in items:
            chosen = getattr(item.obj, "_hypothesis_internal_use_settings", None)
            if chosen is not None:  # a test's own number of examples gives way
                item.obj._hypothesis_internal_use_settings = settings(chosen, max_examples=MANY_EXAMPLES)
    if not REAL_DATA.is_dir():
        for item in items:
            if item.get_closest_marker("real_data"):
                item.add_marker(pytest.mark.skip(reason="needs the judged collections in ../shared/data"))


def skips(reporter):
    """What was skipped, its place and reason, though the installation could have had it."""
    reasons = {
        (path, reason.removeprefix("Skipped: "))
        for path, _, reason in (
            report.longrepr for report in reporter.stats.get("skipped", ()) if isinstance(report.longrepr, tuple)
        )
    }
    return sorted(
        f"{os.path.relpath(path)}: {reason}"
        for path, reason in reasons
        if not any(allowed in reason for allowed in MAY_BE_SKIPPED)
    )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("SKIPS") == "refused" and reporter is not None and skips(reporter):
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    """Nobody reads a list of skipped tests, so a run that could not test a part says so at its end."""
    skipped = [] if config.getoption("--fast") else skips(terminalreporter)
    if skipped:
        terminalreporter.section("not tested: something is not installed", red=True)
        terminalreporter.write_line("\n".join(skipped))


@pytest.fixture(autouse=True)
def no_handler_outlives_its_test():
    """A command that runs in this process logs to the stderr of its test, which is closed when the test is over."""
    yield
    for handler in [one for one in logging.root.handlers if type(one) is logging.StreamHandler]:
        logging.root.removeHandler(handler)


@pytest.fixture(scope="session")
def real_data():
    """The folder of the judged collections, for tests marked ``real_data``."""
    return REAL_DATA


@pytest.fixture(scope="session")
def documents():
    """The documents of ``index``, in the order in which they were added."""
    return DOCUMENTS


@pytest.fixture(scope="session")
def index_folder(tmp_path_factory):
    """An index folder of ``documents``; tests that change files copy it first."""
    from rerank_plugin.indexes.building import build_single

    folder = tmp_path_factory.mktemp("shared") / "index"
    build_single(iter(DOCUMENTS), folder, "the documents of the tests", Problems())
    return folder


@pytest.fixture(scope="session")
def index(index_folder):
    """The :class:`~rerank_plugin.indexes.index_folder.Index` of ``documents``."""
    from rerank_plugin.indexes.index_folder import Index

    return Index(index_folder)


@pytest.fixture(scope="session")
def sample_index(tmp_path_factory):
    """An index folder of the bundled sample; tests that add to it copy it first."""
    return rerank_plugin.build_index("sample", tmp_path_factory.mktemp("sample") / "index").folder


@pytest.fixture(scope="session")
def sample_words(tmp_path_factory):
    """Word vectors of the bundled sample, after two epochs."""
    from rerank_plugin import embed

    folder = tmp_path_factory.mktemp("words") / "words"
    embed.main(f"words --corpus sample --min-count 3 --dimension 20 --epochs 2 --output {folder}".split())
    return folder


@pytest.fixture
def put(tmp_path):
    """Writes a file of this name, packed where the name says so, and gives its path as text.

    A lone surrogate stands for a byte that is no UTF-8.
    """

    def put(name, text):
        data = text.encode(errors="surrogateescape")
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return str(tmp_path / name)

    return put


@cache
def pyserini_searcher():
    """Pyserini's ``LuceneSearcher``; None without a network for versions that read from it when they are imported."""
    from rerank_plugin.java.jvm import start_jvm

    start_jvm()
    try:
        from pyserini.search.lucene import LuceneSearcher
    except URLError:
        return None
    return LuceneSearcher


@pytest.fixture(scope="session")
def lucene_searcher():
    return pyserini_searcher() or pytest.skip("this Pyserini reads from the network when imported, and there is none")


@pytest.fixture
def index_command(monkeypatch, capsys):
    """Runs the index command in this process: its status, stdout and stderr. Logging stays as the tests set it up."""
    from rerank_plugin import index
    from rerank_plugin import options as commandline

    monkeypatch.setattr(commandline, "set_up_logging", lambda verbose: None)

    return lambda *arguments: (status_of(index.main, arguments), *capsys.readouterr())


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """The one line on stderr of a command that refuses its input, run in this process and in the test's folder."""
    monkeypatch.chdir(tmp_path)

    def said(line):
        name, *rest = line.split(" ")
        capsys.readouterr()
        status = status_of(import_module(COMMANDS[name][0]).main, rest)
        out, err = capsys.readouterr()
        assert status == 2 and out == "" and err.startswith("error: ") and err.count("\n") == 1, err
        return err

    return said
