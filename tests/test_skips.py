"""A run of the tests that could not test something says so at its end, and fails where that is refused."""

from tests.processes import start

TESTS = """
import pytest

def test_of_a_gpu():
    pytest.skip("needs a GPU")

def test_of_a_client():
    pytest.importorskip("no_such", reason="needs the extra client")
"""


def test_a_missing_client_is_told_and_refused(tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)
    run = start(tmp_path, "-m", "pytest", "-q", "-p", "tests.conftest", "test_it.py", SKIPS="refused")
    told = run.communicate(timeout=300)[0].partition("not tested: something is not installed")[2]
    assert run.returncode == 1 and "test_it.py: needs the extra client" in told and "needs a GPU" not in told
