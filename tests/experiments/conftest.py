"""Fixtures of the experiments' tests: inputs made by the commands, steps in this process, and a page of both."""

import contextlib
import importlib
import io
import re
import resource

import pytest

from experiments.__main__ import main
from experiments.plan import Runner
from rerank_plugin.__main__ import COMMANDS
from rerank_plugin.corpora import judgments
from rerank_plugin.models.register import entry_of
from tests.models import tiny_encoders


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


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """A folder with a tiny sentence encoder of random weights."""
    return tiny_encoders.bert(tmp_path_factory.mktemp("encoder") / "tiny", "heart disease aspirin women".split())


@pytest.fixture
def in_process(monkeypatch):
    """Steps run in this process, one at a time, so that modules are imported once."""

    def run(self, step):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            importlib.import_module(COMMANDS[step.command[0]][0]).main(list(step.command[1:]))
        if step.prints:
            step.output.parent.mkdir(parents=True, exist_ok=True)
            step.output.write_text(printed.getvalue())
        self._record(step, 1.0, resource.getrusage(resource.RUSAGE_SELF))

    monkeypatch.setattr(Runner, "_run", run)


@pytest.fixture
def page_of(tmp_path, in_process, sample_words):
    """A function that runs an experiment with trainings of one epoch; its page, and the names of the figures there.

    It is run twice, and the second time must run no step and write the same page.
    """

    def run(line):
        always = f"--words {sample_words} --work {tmp_path}/work --output {tmp_path}/page.md --epochs 1 --at-once 1"
        texts, journals = [], []
        for _ in range(2):
            main([*line.split(), *always.split()])
            texts.append((tmp_path / "page.md").read_text())
            journals.append((tmp_path / "work" / "journal.json").stat().st_mtime_ns)
        assert texts[0] == texts[1] and journals[0] == journals[1]
        assert not re.search(r"\bnan\b", texts[0])
        figures = re.findall(r"\]\((page-[\w-]+\.png)\)", texts[0])
        assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in figures)
        return texts[0], figures

    return run


def built(step):
    """What the command makes of a training's options: these, the training's settings and the model's."""
    from rerank_plugin import train
    from rerank_plugin.models.checkpoint import build_config

    options = train.arguments().parse_args(step.command[1:])
    given = {"concepts": 3} if options.concepts is not None else {}  # of the knowledge base, which is not there
    config = build_config(entry_of(options.model).load("config"), {**train._model_values(options), **given}, step.name)
    return options, train.training_config(options), config
