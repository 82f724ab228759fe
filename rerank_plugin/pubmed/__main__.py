"""``rerank-plugin pubmed``: mirrors PubMed, and keeps an index of it current."""

from __future__ import annotations

import logging
from argparse import Namespace
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rerank_plugin import options as commandline
from rerank_plugin.base.errors import InputError
from rerank_plugin.pubmed.syncing import NLM

if TYPE_CHECKING:
    from rerank_plugin.pubmed.applying import FileReport
    from rerank_plugin.pubmed.distribution import SourceFile
    from rerank_plugin.pubmed.mirror import Mirror

log = logging.getLogger(__name__)

DESCRIPTION = """\
Mirror PubMed's baseline and its update files, and keep an index of them current (docs/pubmed.md). The data are
courtesy of the U.S. National Library of Medicine; abstracts may be copyrighted."""
EXAMPLES = """\
examples:
  rerank-plugin pubmed sync --mirror pubmed
  rerank-plugin pubmed index --mirror pubmed --index indexes/pubmed
  rerank-plugin pubmed status --mirror pubmed --index indexes/pubmed"""
FILTER = "type:Review, year:2015-, language:eng, journal:NEJM, mesh:Neoplasms; as for search --filter"


def arguments() -> commandline.Parser:
    parser = commandline.parser("pubmed", DESCRIPTION, EXAMPLES)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", help="sync, index or status")
    add_sync(parser, subparsers)
    add_index(parser, subparsers)
    add_status(parser, subparsers)
    return parser


def add_sync(parser: commandline.Parser, subparsers: Any) -> None:
    command = parser.subcommand(
        subparsers, "sync", "fetch the files that a mirror lacks",
        "Fetch the files that a mirror lacks, each checked against its MD5. A run that was interrupted is continued.\n"
        "The files of a new year's baseline replace those of the last year one by one.",
        "example:\n  rerank-plugin pubmed sync --mirror pubmed",
    )  # fmt: skip
    _add_mirror(command)
    command.add_argument("--base-url", help=f"address of the distribution (default: that of the mirror, or {NLM})")
    command.add_argument("--rate", type=float, default=3.0, metavar="N", help="requests a second, at most")
    command.add_argument("--stall", type=float, default=60.0, metavar="S", help="seconds without data before a new try")


def add_index(parser: commandline.Parser, subparsers: Any) -> None:
    command = parser.subcommand(
        subparsers, "index", "build an index from a mirror, or bring it up to date",
        "Apply the files of a mirror that an index lacks, in the order of their numbers, each as one update: revised\n"
        "records replace, deletions delete. After an interruption, the command goes on with the file that was read.",
        "examples:\n  rerank-plugin pubmed index --mirror pubmed --index indexes/pubmed\n"
        "  rerank-plugin pubmed index --mirror pubmed --index indexes/reviews --filter type:Review --filter year:2020-",
    )  # fmt: skip
    _add_mirror(command)
    command.add_argument("--index", type=Path, required=True, help="index folder")
    selected = f"index only records that match FIELD:VALUE; may be repeated ({FILTER})"
    command.add_argument("--filter", action="append", default=[], metavar="FIELD:VALUE", help=selected)
    below = "compiled MeSH: headings of --filter stand for those below them in its trees, too"
    command.add_argument("--knowledge", type=Path, metavar="KB", help=below)
    command.add_argument("--files", type=int, metavar="N", help="stop after N files (default: all)")
    command.add_argument("--threads", type=int, help="threads of encoding (default: one per core)")
    command.add_argument("--device", default="cpu", help="torch device of the encoders of an index")


def add_status(parser: commandline.Parser, subparsers: Any) -> None:
    command = parser.subcommand(
        subparsers, "status", "show what a mirror and its index lack",
        "Show what a mirror lacks of a server's files, what an index lacks of the mirror's, and what a run will cost.",
        "example:\n  rerank-plugin pubmed status --mirror pubmed --index indexes/pubmed",
    )  # fmt: skip
    _add_mirror(command)
    command.add_argument("--index", type=Path, help="index folder (default: the mirror alone)")
    command.add_argument("--offline", action="store_true", help="show what the server had when it was asked last")


def _add_mirror(command: Any) -> None:
    command.add_argument("--mirror", type=Path, required=True, help="folder of the mirror")


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = commandline.parse(parser, argv)
    {"sync": sync, "index": index, "status": status}[options.command](parser, options)


def sync(parser: commandline.Parser, options: Namespace) -> None:
    """Fetch the files that a mirror lacks."""
    from rerank_plugin.pubmed import syncing
    from rerank_plugin.pubmed.mirror import Mirror
    from rerank_plugin.pubmed.server import Server

    if min(options.rate, options.stall) <= 0:
        parser.error("--rate and --stall must be above 0")
    mirror = Mirror(options.mirror)
    server = Server(_with_slash(options.base_url or mirror.state["base_url"] or NLM), options.rate, options.stall)

    def fetching(files: list[SourceFile]) -> Iterator[SourceFile]:
        return commandline.progress(files, "fetching", "files", total=len(files))

    report = syncing.sync(mirror, server, fetching)
    print(
        f"{options.mirror}: {report.fetched:,} files fetched ({report.bytes / 1e6:,.1f} MB), {report.removed:,} of an "
        f"older release removed; {len(mirror.files()):,} files"
    )
    if report.failed:
        raise InputError(f"{len(report.failed):,} files could not be fetched, the first {report.failed[0]}; sync again")


def index(parser: commandline.Parser, options: Namespace) -> None:
    """Build an index from a mirror, or bring it up to date."""
    from itertools import islice

    from rerank_plugin.base.filters import Filter
    from rerank_plugin.concepts.headings import Headings
    from rerank_plugin.concepts.knowledge_base import KnowledgeBase
    from rerank_plugin.pubmed.applying import applied, bring_up_to_date, next_missing
    from rerank_plugin.pubmed.mirror import Mirror
    from rerank_plugin.pubmed.selection import with_narrower

    parser.check_counts(options, "files", "threads")
    if options.knowledge and not options.filter:
        parser.error("--knowledge is for headings of a filter: give it with --filter")
    filter = Filter.parse(options.filter) if options.filter else None
    if filter is not None and options.knowledge:
        if (headings := Headings.of(KnowledgeBase(options.knowledge))) is None:
            raise InputError(f"{options.knowledge} has no trees: compile MeSH")
        filter = with_narrower(filter, headings)
    mirror = Mirror(options.mirror)
    bars = partial(commandline.progress, description="indexing", unit="documents")
    reports = bring_up_to_date(mirror, options.index, filter, options.threads, options.device, bars)
    for report in islice(reports, options.files):
        _log(report)
        print(f"{options.index}: {_described(report)}", flush=True)
    held = applied(options.index)
    if held is None:
        raise InputError(f"{options.mirror} has no file with a record to index: sync first, or change the filter")
    print(f"{options.index}: holds {held.name} of {held.published} and all files before it")
    if not options.files and (gap := next_missing(mirror.files(), held)):
        raise InputError(f"{_waiting(mirror, gap, mirror.listed())}: sync again")


def _waiting(mirror: Mirror, gap: str, listed: Sequence[SourceFile]) -> str:
    """What a mirror lacks by the name of a file, and whether its server did as well, of whose files a list is given."""
    server = ", as does its server" if listed and all(file.name != gap for file in listed) else ""
    return f"{mirror.folder} lacks {gap}{server}, and later files wait for it"


def _log(report: FileReport) -> None:
    for line in report.problems.summary():
        log.warning("%s: %s", report.file.name, line)


def _described(report: FileReport) -> str:
    name = report.file.name
    if report.since is not None:
        name = f"{report.since.name}, which was published anew, and all applied files after it"
    if (update := report.update) is None:
        return f"{name}: no record to index"
    gone = len(update.withdrawn)
    return (
        f"{name}: {update.added - update.deleted + gone:,} new records, {update.deleted - gone:,} revised, "
        f"{gone:,} deleted, {update.unchanged:,} unchanged, {len(update.older):,} older, in {report.seconds:.1f} s; "
        f"{update.documents:,} documents"
    )


def status(parser: commandline.Parser, options: Namespace) -> None:
    """Show what a mirror and its index lack."""
    from rerank_plugin.pubmed import syncing
    from rerank_plugin.pubmed.mirror import Mirror
    from rerank_plugin.pubmed.server import Server

    mirror = Mirror(options.mirror)
    files, state = mirror.files(), mirror.state
    print(f"{options.mirror}: {len(files):,} files, {_size(mirror, files)}, {_range(files)}")
    listed, when = mirror.listed(), f"when it was asked on {state['asked']}"
    if not options.offline:
        try:
            server = Server(_with_slash(state["base_url"] or NLM), tries=2)
            listed, when = list(syncing.listed(server)), "now"
        except InputError as error:
            log.warning("%s", error)
    if listed:
        lacking = sorted({*listed} - {*files})
        print(f"{state['base_url'] or NLM}: {len(listed):,} files {when}, of which the mirror lacks {len(lacking):,}")
    elif state["asked"] is None:
        print("the server was not asked yet")
    if options.index:
        _index_status(mirror, files, options.index, listed)


def _index_status(mirror: Mirror, files: Sequence[SourceFile], folder: Path, listed: Sequence[SourceFile]) -> None:
    from rerank_plugin.pubmed.applying import applied, next_missing, pending, published_anew

    held = applied(folder)
    again, following = published_anew(mirror, files, held), pending(files, held)
    if held is None:
        print(f"{folder}: no index yet")
    else:
        age = datetime.now(timezone.utc) - datetime.fromisoformat(held.published)
        selected = "" if held.filter is None else ", of the records that its filter selects"
        print(f"{folder}: holds {held.name} and all files before it{selected}; {age.days} days old")
    if again:
        print(
            f"{folder}: {again[0].name} was published anew after it was applied: a run applies it again, and the "
            f"{len(again) - 1:,} files after it"
        )
    size = _size(mirror, following)
    cost = ""
    if held is not None and held.pace and (again or following):
        hours = held.pace * sum(mirror.path(file).stat().st_size for file in [*again, *following]) / 1e6 / 3600
        cost = f", some {hours:.1f} hours" if hours >= 1 else f", some {hours * 60:.0f} minutes"
    print(f"{folder}: lacks {len(following):,} files of the mirror, {size}{cost}")
    if gap := next_missing(files, held):
        print(_waiting(mirror, gap, listed))


def _size(mirror: Mirror, files: Sequence[SourceFile]) -> str:
    return f"{sum(mirror.path(file).stat().st_size for file in files) / 1e9:,.2f} GB"


def _range(files: Sequence[SourceFile]) -> str:
    return f"{files[0].name} to {files[-1].name}" if files else "none yet"


def _with_slash(address: str) -> str:
    return f"{address.rstrip('/')}/"


if __name__ == "__main__":
    commandline.run(main)
