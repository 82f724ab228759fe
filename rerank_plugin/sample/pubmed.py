"""A distribution in the layout of PubMed's, of invented citations: baselines of several years, and update files.

Its files have the names, the elements and the MD5 lines of the U.S. National Library of Medicine (NLM), and among
their citations is what readers stumble over: versions of an article, also in the wrong order, deletions, retractions
with notices, errata, structured abstracts, other languages, MathML, authors that are groups, dates in words, DOIs that
NLM marks as invalid, and a malformed record. **Nothing in it is real.**

An update file has new articles, revised ones and deletions; the baseline of the year after has what is left then.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.outputs import FolderKind, replacing_folder
from rerank_plugin.sample.generator import SEED
from rerank_plugin.sample.pubmed_records import EVERY, RETRACTED, Records

DISTRIBUTION = FolderKind(
    "a generated distribution of PubMed", "README.txt", (), ("baseline/pubmed*", "updatefiles/pubmed*")
)
HEAD = """\
<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2025//EN" \
"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd">
<PubmedArticleSet>
"""
README = r"""Invented citations in the layout of PubMed's files: no article, author or finding in them is real.

Made, and to be made again, by

    rerank-plugin sample --pubmed --output DIR --documents {citations} --updates {updates} --per-file {per_file} \
        --release {release} --seed {seed}
"""
LEVEL = 6  # of gzip, as NLM's files


@dataclass(frozen=True)
class Distribution:
    """What a generated distribution is made of.

    Attributes:
        citations: articles of the first baseline.
        updates: update files of each year.
        per_file: records of a baseline file, at most.
        release: 26 is the first year; later ones begin with what the years before have left.
        damaged: whether the first update file has a malformed record.
        per_update: records of an update file, half of them new; None for a fiftieth of the citations, 20 at least.
    """

    citations: int = 1000
    updates: int = 3
    per_file: int = 30_000
    release: int = 26
    damaged: bool = True
    seed: int = SEED
    per_update: int | None = None

    def __post_init__(self) -> None:
        if min(self.citations, self.per_file) < 1 or self.updates < 0 or not 26 <= self.release <= 99:
            raise InputError("a distribution has citations, files of a record or more, and a release from 26 to 99")

    @property
    def of_update(self) -> tuple[int, int, int]:
        """How many articles an update file adds, revises and deletes."""
        some = max(self.citations // 100, 10) if self.per_update is None else max(self.per_update // 2, 1)
        return some, some, max(some // 20, 1)


class Articles:
    """How often each article was revised, uint8 [n] by its number, and which are deleted, bool [n]."""

    def __init__(self, plan: Distribution):
        self.plan = plan
        self.revisions, self.deleted = np.zeros(plan.citations, np.uint8), np.zeros(plan.citations, bool)
        for year in range(26, plan.release):
            for number in range(plan.updates):
                self.update(year, number)
            self.revisions[::10] += 1  # with the new year's headings

    def update(self, year: int, number: int) -> tuple[list[int], list[int]]:
        """Apply an update; the numbers of the articles that it writes, and of those that it deletes."""
        rng, (added, revised, deleted) = Random(f"{self.plan.seed} {year} {number}"), self.plan.of_update
        held = len(self.revisions)
        drawn = [int(rng.random() * held) for _ in range(revised + deleted)]
        drawn[deleted:deleted] = [EVERY * (number % (held // EVERY + 1)) + RETRACTED]  # one is retracted each time
        drawn = [number for number in dict.fromkeys(drawn) if number < held and not self.deleted[number]]
        changed, gone = drawn[deleted:], drawn[:deleted]
        self.revisions[changed] += 1
        self.deleted[gone] = True
        self.revisions = np.append(self.revisions, np.zeros(added, np.uint8))
        self.deleted = np.append(self.deleted, np.zeros(added, bool))
        return changed + list(range(held, held + added)), gone


class DistributionWriter:
    """Writes the files of a distribution into a folder: those of the baseline in any order, then the updates.

    A file whose MD5 is there stays as it is.

    Attributes:
        files: of the baseline.
    """

    def __init__(self, folder: Path, plan: Distribution):
        self.folder, self.plan = folder, plan
        self._articles, self._records = Articles(plan), Records(plan.seed)
        self._held = np.flatnonzero(~self._articles.deleted)
        self.files = -(-len(self._held) // plan.per_file)

    def baseline(self, progress: Callable[[Iterable[int]], Iterable[int]] = iter) -> None:
        """Write the baseline; ``progress`` wraps the numbers of its articles."""
        numbers = iter(progress(self._held.tolist()))
        for file in range(1, self.files + 1):
            self.baseline_file(file, islice(numbers, self.plan.per_file))

    def baseline_file(self, file: int, numbers: Iterable[int] | None = None) -> None:
        """Write a file of the baseline, by its number from 1 on; ``numbers`` are those of its articles."""
        first = (file - 1) * self.plan.per_file
        numbers = self._held[first : first + self.plan.per_file].tolist() if numbers is None else numbers
        revisions = self._articles.revisions
        records = (record for one in numbers for record in self._records.of_baseline(one, int(revisions[one])))
        _write(self._path("baseline", file), records)

    def updates(self) -> None:
        """Write the update files."""
        articles, plan = self._articles, self.plan
        for update in range(plan.updates):
            changed, gone = articles.update(plan.release, update)
            path = self._path("updatefiles", self.files + update + 1)
            if _md5_path(path).exists():
                continue
            parts = [self._records.of_update(number, int(articles.revisions[number])) for number in changed]
            if plan.damaged and update == 0:
                parts.insert(len(parts) // 2, "<PubmedArticle><MedlineCitation>a & b</PubmedArticle>\n")
            if gone:
                parts.append(self._records.deletions([(number, int(articles.revisions[number])) for number in gone]))
            _write(path, parts)

    def _path(self, folder: str, number: int) -> Path:
        (self.folder / folder).mkdir(parents=True, exist_ok=True)
        return self.folder / folder / f"pubmed{self.plan.release:02}n{number:04}.xml.gz"


def write_distribution(
    folder: str | Path, plan: Distribution, progress: Callable[[Iterable[int]], Iterable[int]] = iter
) -> int:
    """Write a distribution; gives the number of its files.

    Args:
        progress: wraps the numbers of the articles, for a progress bar.

    Raises:
        InputError: the folder exists already, or cannot be written.
    """
    with replacing_folder(folder, DISTRIBUTION) as writing:
        writer = DistributionWriter(writing, plan)
        writer.baseline(progress)
        (writing / "updatefiles").mkdir()
        writer.updates()
        (writing / "README.txt").write_text(README.format(**asdict(plan)), "utf-8")
    return writer.files + plan.updates


def _md5_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.md5")


def _write(path: Path, records: Iterable[str]) -> None:
    if _md5_path(path).exists():
        return
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", LEVEL, raw, mtime=0) as zipped:
        zipped.write(HEAD.encode())
        for record in records:
            zipped.write(record.encode())
        zipped.write(b"</PubmedArticleSet>\n")
    digest = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    (part := path.with_name(f"{path.name}.part")).write_text(f"MD5({path.name})= {digest}\n", "ascii")
    part.replace(_md5_path(path))
