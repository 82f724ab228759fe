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
    """

    citations: int = 1000
    updates: int = 3
    per_file: int = 30_000
    release: int = 26
    damaged: bool = True
    seed: int = SEED

    def __post_init__(self) -> None:
        if min(self.citations, self.per_file) < 1 or self.updates < 0 or not 26 <= self.release <= 99:
            raise InputError("a distribution has citations, files of a record or more, and a release from 26 to 99")

    @property
    def of_update(self) -> tuple[int, int, int]:
        """How many articles an update file adds, revises and deletes."""
        some = max(self.citations // 100, 10)
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


def write_distribution(
    folder: str | Path, plan: Distribution, progress: Callable[[Iterable[int]], Iterable[int]] = iter
) -> int:
    """Write a distribution; gives the number of its files.

    Args:
        progress: wraps the numbers of the articles, for a progress bar.

    Raises:
        InputError: the folder exists already, or cannot be written.
    """
    articles, records = Articles(plan), Records(plan.seed)
    with replacing_folder(folder, DISTRIBUTION) as writing:
        (writing / "baseline").mkdir()
        (writing / "updatefiles").mkdir()
        held = np.flatnonzero(~articles.deleted).tolist()
        count = -(-len(held) // plan.per_file)
        numbers = iter(progress(held))
        for file in range(count):
            written = (
                record
                for _, number in zip(range(plan.per_file), numbers)
                for record in records.of_baseline(number, int(articles.revisions[number]))
            )
            _write(writing / "baseline" / f"pubmed{plan.release:02}n{file + 1:04}.xml.gz", written)
        for update in range(plan.updates):
            changed, gone = articles.update(plan.release, update)
            parts = [records.of_update(number, int(articles.revisions[number])) for number in changed]
            if plan.damaged and update == 0:
                parts.insert(len(parts) // 2, "<PubmedArticle><MedlineCitation>a & b</PubmedArticle>\n")
            if gone:
                parts.append(records.deletions([(number, int(articles.revisions[number])) for number in gone]))
            _write(writing / "updatefiles" / f"pubmed{plan.release:02}n{count + update + 1:04}.xml.gz", parts)
        (writing / "README.txt").write_text(README.format(**asdict(plan)), "utf-8")
    return count + plan.updates


def _write(path: Path, records: Iterable[str]) -> None:
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", LEVEL, raw, mtime=0) as zipped:
        zipped.write(HEAD.encode())
        for record in records:
            zipped.write(record.encode())
        zipped.write(b"</PubmedArticleSet>\n")
    digest = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    Path(f"{path}.md5").write_text(f"MD5({path.name})= {digest}\n", "ascii")
