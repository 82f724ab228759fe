"""The options of ``tables`` that choose a subset of the queries, their checks, and the chosen queries."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)


def add_subset_options(parser) -> None:
    add = parser.add_argument_group("subsets of the queries").add_argument
    subset = (
        "subset: neg20+ (or neg5+, ...), one-new-word, all-new-words, overlap0.3-0.5 (or any other range: the largest "
        "Jaccard coefficient with the relevant documents of a training query), or a file with one query id a line"
    )
    add("--subset", metavar="S", help=subset)
    add("--describe-subsets", action="store_true", help="print the sizes of the subsets instead of measures")
    add("--queries", metavar="Q", help="texts of the queries, in any form that search takes")
    add("--index", type=Path, help="index folder, for the titles that neg20+ needs")
    candidates = (
        "run with the documents of neg20+, of which unjudged ones are non-relevant (default: the judged documents)"
    )
    add("--subset-run", metavar="RUN", help=candidates)
    seen = "training or validation queries, whose words are not new; may be repeated"
    add("--seen-queries", action="append", default=[], metavar="Q", help=seen)
    add("--seen-qrels", metavar="J", help="judgments of the training queries, for overlaps")


def check_subset(parser, options) -> None:
    """Check the options that a subset needs."""
    if options.subset is None and not options.describe_subsets:
        return
    from experiments.subsets import ALL_NEW_WORDS, ONE_NEW_WORD, hard_count, overlap_range

    name = "--describe-subsets" if options.describe_subsets else f"--subset {options.subset}"
    of_words = options.subset in (ONE_NEW_WORD, ALL_NEW_WORDS)
    of_titles = options.describe_subsets or hard_count(options.subset) is not None
    if options.queries is None and (of_titles or of_words):
        parser.error(f"{name} needs the texts of the queries: --queries")
    if options.index is None and of_titles:
        parser.error(f"{name} needs the titles of the documents: --index")
    if not options.seen_queries and of_words:
        parser.error(f"{name} needs the training and validation queries: --seen-queries, which may be repeated")
    if options.subset is not None and overlap_range(options.subset) and options.seen_qrels is None:
        parser.error(f"{name} needs the judgments of the training queries: --seen-qrels")


def chosen_judgments(options) -> tuple[dict, Callable]:
    """The judgments of the subset, and a function that restricts a run to it."""
    from experiments import subsets
    from rerank_plugin.corpora import judgments

    judged = judgments(options.qrels)
    if options.subset is None:
        return judged, lambda run: run
    kept = subsets.restricted(judged, subset_ids(options, judged), options.subset)
    log.info("subset %s: %d of %d judged queries", options.subset, len(kept), sum(map(bool, judged.values())))
    return kept, lambda run: subsets.without_others(run, judged, kept)


def subset_ids(options, judged) -> list[str]:
    """The query ids of ``--subset``."""
    from experiments import subsets
    from rerank_plugin.corpora import judged_queries, judgments, queries

    if (between := subsets.overlap_range(options.subset)) is not None:
        return subsets.overlapping(judged, judgments(options.seen_qrels), *between)
    at_least = subsets.hard_count(options.subset)
    of_words = {subsets.ONE_NEW_WORD: subsets.one_new_word, subsets.ALL_NEW_WORDS: subsets.all_new_words}
    if at_least is None and options.subset not in of_words:
        return subsets.read_ids(options.subset)
    with_judgments = judged_queries(queries(options.queries), judged, options.queries)
    if at_least is None:
        return of_words[options.subset](with_judgments, _seen_words(options))
    return subsets.hard_queries(subsets.samples(with_judgments, judged, *_index_and_run(options)), at_least)


def subset_description(options) -> str:
    from experiments import subsets
    from rerank_plugin.corpora import judgments, queries

    seen = _seen_words(options) if options.seen_queries else None
    index, run = _index_and_run(options)
    description = subsets.describe(queries(options.queries), judgments(options.qrels), index, seen, run)
    return subsets.markdown(description)


def _index_and_run(options) -> tuple:
    """The forward index, and the run of ``--subset-run`` or None."""
    from rerank_plugin import Index, read_run

    run = read_run(options.subset_run) if options.subset_run is not None else None
    return Index(options.index).forward, run


def _seen_words(options) -> set[str]:
    from experiments.subsets import words_of
    from rerank_plugin.corpora import queries

    return {word for spec in options.seen_queries for word in words_of(queries(spec))}
