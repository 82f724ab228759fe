"""What the tests of the experiments share: inputs made by the commands, steps in this process, refused commands."""

import contextlib
import importlib
import io
import resource

import pytest

import rerank_plugin as rp
from experiments.__main__ import main
from experiments.plan import Runner
from rerank_plugin.corpora import judgments


@pytest.fixture(scope="session")
def judged(tmp_path_factory):
    """Judgments of the sample's test queries, where 60 documents of other queries have grade 0."""
    sample = judgments("sample:test")
    others = sorted({document for of_query in sample.values() for document in of_query})[:60]
    path = tmp_path_factory.mktemp("judged") / "judged.qrels"
    path.write_text(
        "".join(f"{q} 0 {d} {grades.get(d, 0)}\n" for q, grades in sample.items() for d in {*others, *grades})
    )
    return path


@pytest.fixture
def in_process(monkeypatch):
    """Steps run in this process, one at a time: what all commands import is imported once."""

    def run(self, step):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            importlib.import_module(f"rerank_plugin.{step.command[0]}").main(list(step.command[1:]))
        if step.prints:
            step.output.parent.mkdir(parents=True, exist_ok=True)
            step.output.write_text(printed.getvalue())
        self._remember(step, 1.0, resource.getrusage(resource.RUSAGE_SELF))

    monkeypatch.setattr(Runner, "_run", run)


@pytest.fixture
def refused(tmp_path, capsys):
    """A function that runs a command line, which must be refused, and returns what is said of it."""

    def run(command):
        try:
            main(command)
        except rp.InputError as error:
            return str(error)
        except SystemExit as raised:
            assert raised.code == 2
            return capsys.readouterr().err
        raise AssertionError("taken as it is")

    return run
