"""The writer of the experiments' pages: Markdown, headed by the command that wrote it, with figures beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from experiments.plan import Plan, Runner, Step, history
from rerank_plugin.benchmark import machine
from rerank_plugin.files.outputs import FileKind, beginning, replacing

MADE_BY = rb"# The \w+ experiments\n[^#]*```sh\npython -m experiments "
DEPARTURES = "Where the rows depart from the papers"  # heading in the notes
PAGE = FileKind("a page of this experiment", lambda path: re.match(MADE_BY, beginning(path)) is not None)


class Page:
    """The page of one experiment; subclasses give its parts.

    Args:
        plan: the plan, whose steps have run.
        journal: of the steps.
        command: command that writes the page.
    """

    name: str

    def __init__(self, plan: Plan, journal: Runner, command: str):
        self.plan, self.settings, self.journal, self.command = plan, plan.settings, journal, command

    def about(self) -> tuple[str, str]:
        """The text on the experiments, above the command, and that on reading the figures, below it."""
        raise NotImplementedError

    def parts(self) -> Iterable[str]:
        """The paragraphs, tables and headings below the notes."""
        raise NotImplementedError

    def write(self) -> None:
        settings, (subject, reading) = self.settings, self.about()
        parts = [
            f"# The {self.name} experiments",
            f"{subject} Made by",
            f"```sh\n{self.command}\n```",
            f"on {machine.cpu_model()}, {settings.at_once} steps at a time with a thread each, seed {settings.seed}. "
            f"The tables and pictures below come from that command{reading}",
        ]
        if notes := self.notes():
            parts.append(notes)
        parts += self.parts()
        with replacing(settings.output, PAGE, overwrite=True) as file:
            file.write(("\n\n".join(part.strip() for part in parts) + "\n").encode())

    def notes(self) -> str:
        return self.settings.notes.read_text(encoding="utf-8") if self.settings.notes is not None else ""

    def departures(self) -> Iterator[str]:
        """A link, above a table of results, to the notes on the differences from the papers, if any."""
        if f"## {DEPARTURES}\n" in self.notes():
            yield f"[{DEPARTURES}](#{DEPARTURES.lower().replace(' ', '-')})"

    def figure(self, name: str) -> Path:
        """The path of a figure of the page."""
        return self.settings.output.with_name(f"{self.settings.output.stem}-{name}.png")

    def best_epoch(self, training: Step, measures: Sequence[str]) -> list[str]:
        """A training's best epoch, the number of its epochs, and the measures of the best epoch."""
        entries = history(training)
        best = max(entries, key=lambda entry: entry["deciding"] or 0.0)
        return [str(best["epoch"]), str(len(entries)), *(f"{best[name]:.4f}" for name in measures)]


def image(text: str, path: Path) -> str:
    return f"![{text}]({path.name})"
