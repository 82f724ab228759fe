"""A run of the tests that could not test something says so at its end, and fails where that is refused."""

import pytest

from tests.processes import start

OF_A_GPU = 'import pytest\n\ndef test_of_a_gpu():\n    pytest.skip("needs a GPU")\n'
OF_A_CLIENT = "def test_of_a_client():\n    pytest.importorskip('no_such', reason='needs the extra client')\n"


@pytest.mark.parametrize("tests, skips, status", [(OF_A_GPU, "refused", 0), (OF_A_GPU + OF_A_CLIENT, "refused", 1)])
def test_a_missing_client_is_told_and_refused(tmp_path, tests, skips, status):
    (tmp_path / "test_it.py").write_text(tests)
    run = start(tmp_path, "-m", "pytest", "-q", "-p", "tests.conftest", "test_it.py", SKIPS=skips)
    told = run.communicate(timeout=300)[0].partition("not tested: something is not installed")[2]
    assert run.returncode == status and ("test_it.py: needs the extra client" in told) == (tests != OF_A_GPU)
    assert "test_it.py: needs a GPU" not in told
