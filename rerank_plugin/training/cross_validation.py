"""Cross-validation in round-robin order ([P] 3.1): a model for each fold, and a run in which each ranks its own fold.

Folds are parts of the judged queries, each the test set of a model trained without it. [P]'s are the years of its
tracks, 50 queries each: 50 random queries of the other years' 250 are held out for validation, and 200 train. A file of
folds has a line for each query, ``query id<TAB>fold name``.

The output is a folder with a checkpoint for each fold, ``fold-NAME``; the folds, ``folds.tsv``; the run
``cross-validated.run``, where every query is ranked by the model of its fold, which never saw it; and a table of the
measures, ``cross-validation.md``. Until all folds are finished, ``OUTPUT.training`` holds the finished ones.
"""

from __future__ import annotations

import json
import logging
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.evaluation.significance import paired_t_test
from rerank_plugin.evaluation.values import Evaluator, Values
from rerank_plugin.files import tables
from rerank_plugin.files.artifact import read_object
from rerank_plugin.files.outputs import FolderKind, remove_folder, replacing_folder
from rerank_plugin.files.runs import RankedList, write_run
from rerank_plugin.files.text_files import lines
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.models.checkpoint import CONFIG_FILE, Checkpoint
from rerank_plugin.ranking.pipeline import rank_all
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.retrieval.register import RANKING, entry_of
from rerank_plugin.text.tokenizer import tokenize
from rerank_plugin.text.word_vectors import WORD_VECTORS
from rerank_plugin.training import saving
from rerank_plugin.training.saving import TRAINED, Outcome
from rerank_plugin.training.session import CROSS_VALIDATION_FILE, Session, TrainingTask
from rerank_plugin.training.trainer import START_OVER, write
from rerank_plugin.training.validation import HeldOut

log = logging.getLogger(__name__)

SHARE = 0.2  # share of the remaining queries for validation: 50 of 250 in [P] 3.1

Parts = dict[str, list[Query]]  # queries by the name of their fold, in input order


class Fold(NamedTuple):
    """The disjoint training, validation and test queries of the model of one fold."""

    name: str
    train: list[Query]
    validation: list[Query]
    test: list[Query]


def random_parts(queries: Sequence[Query], count: int, seed: int) -> Parts:
    """Random parts named 1, 2, ... (with leading zeros from ten parts on), whose sizes differ by one at most.

    Raises:
        InputError: fewer than two parts, or fewer queries than parts.
    """
    if not 2 <= count <= len(queries):
        raise InputError(f"{count} folds: the {len(queries)} judged queries make 2 to {len(queries)}")
    order = np.random.default_rng([seed, count]).permutation(len(queries))
    width = len(str(count))
    return {
        f"{number:0{width}d}": [queries[place] for place in sorted(places.tolist())]
        for number, places in enumerate(np.array_split(order, count), 1)
    }


def read_parts(path: Path, queries: Sequence[Query]) -> Parts:
    """The parts of a file, in the order of their first lines. Lines of unknown queries are left out.

    Raises:
        InputError: a malformed line, a name that cannot name a folder, a query in two folds or in none, or only one
            fold.
    """
    fold_of: dict[str, str] = {}
    for number, line in lines(path):
        columns = line.rstrip("\r\n").split("\t")
        if columns == [""]:
            continue
        if len(columns) != 2 or not columns[0]:
            raise InputError(f"{path}:{number}: expected a query id, a tab, and the name of its fold")
        query_id, name = columns
        if not re.fullmatch(r"\w[\w.-]*", name):
            raise InputError(
                f"{path}:{number}: the fold {name!r} names a folder: use only letters, digits, '_', '.' and '-'"
            )
        if query_id in fold_of:
            raise InputError(f"{path}:{number}: query {query_id} is in a fold already, {fold_of[query_id]}")
        fold_of[query_id] = name
    missing = [query.id for query in queries if query.id not in fold_of]
    if missing:
        raise InputError(f"{path}: {len(missing)} judged queries are in no fold, e.g. '{missing[0]}'")
    unknown = fold_of.keys() - {query.id for query in queries}
    if unknown:
        log.warning("%s: %d queries are not among the training queries, e.g. '%s'", path, len(unknown), min(unknown))
    parts: Parts = {name: [] for name in fold_of.values()}
    for query in queries:
        parts[fold_of[query.id]].append(query)
    parts = {name: part for name, part in parts.items() if part}
    if len(parts) < 2:
        raise InputError(f"{path}: all queries are in one fold, {next(iter(parts))}: nothing is left to train on")
    return parts


def as_text(parts: Mapping[str, Sequence[Query]]) -> str:
    """The parts in the format that `read_parts` reads."""
    return "".join(f"{query.id}\t{name}\n" for name, part in parts.items() for query in part)


def make_folds(parts: Parts, held_out: float, seed: int) -> list[Fold]:
    """A fold for each part, which is the test set; a random sample of the other queries is for validation.

    Args:
        held_out: number of validation queries if at least 1, otherwise their share of the other queries.

    Raises:
        InputError: no query is left for validation or for training.
    """
    folds = []
    for name, test in parts.items():
        tested = {query.id for query in test}
        others = sorted(query for part in parts.values() for query in part if query.id not in tested)
        count = int(held_out) if held_out >= 1 else max(1, round(held_out * len(others)))
        if not 0 < count < len(others):
            raise InputError(
                f"cannot hold out {held_out:g} for validation: the {len(others)} queries outside the fold {name} must "
                "do for validation and training"
            )
        sample = np.random.default_rng([seed, zlib.crc32(name.encode())]).choice(len(others), count, replace=False)
        validation = {others[place].id for place in sample.tolist()}
        train = [query for query in others if query.id not in validation]
        folds.append(Fold(name, train, [query for query in others if query.id in validation], test))
    return folds


def warn_of_repeated_texts(parts: Parts) -> None:
    """Log a warning if queries of different folds have the same words: test data then leaks into training."""
    folds_of: dict[tuple[str, ...], dict[str, str]] = {}
    for name, part in parts.items():
        for query in part:
            folds_of.setdefault(tuple(tokenize(query.text)), {})[query.id] = name
    groups = [by_id for by_id in folds_of.values() if len(set(by_id.values())) > 1]
    if groups:
        shown = "; ".join(" = ".join(f"{id} (fold {name})" for id, name in by_id.items()) for by_id in groups[:5])
        log.warning(
            "%d queries have the same words as a query in another fold, so that models are tested on their training "
            "data: %s%s", sum(map(len, groups)), shown, "; ..." if groups[5:] else "",
        )  # fmt: skip


FOLDS_FILE, RUN_FILE, TABLE_FILE = "folds.tsv", "cross-validated.run", "cross-validation.md"
CROSS_VALIDATED = FolderKind("a cross-validation", RUN_FILE, (), (FOLDS_FILE, TABLE_FILE, *TRAINED.inside("fold-*")))
INTERRUPTED = FolderKind(
    "an interrupted cross-validation",
    CROSS_VALIDATION_FILE,
    ("data", "folds"),
    (*TRAINED.inside("fold-*"), *saving.TRAINING.inside("fold-*.training"), *WORD_VECTORS.inside(saving.WORDS)),
)
ALPHA = 0.05  # the stricter level of [P] table 1


def cross_validate(session: Session, folds: Sequence[Fold], output: Path) -> str:
    """Train a model for each fold and evaluate it on the queries of its fold.

    Returns:
        The table of measures in Markdown.

    Raises:
        InputError: there is an interrupted cross-validation that may not be resumed, or has other settings.
    """
    folds_text = as_text({fold.name: fold.test for fold in folds})
    work = saving.work_folder(output)
    settings = _settings(session, folds)
    _check(work, settings, session.task)
    _warn_if_folds_were_seen(session)
    _ = session.pools  # reports bad candidates before there is anything to resume
    write(work / CROSS_VALIDATION_FILE, json.dumps(settings))
    outcomes = []
    for number, fold in enumerate(folds, 1):
        checkpoint = _checkpoint(work, fold)
        if (checkpoint / CONFIG_FILE).exists():
            log.info("fold %s was finished before", fold.name)
        else:
            message = "fold %s, %d of %d: %d training, %d validation, %d test queries"
            log.info(message, fold.name, number, len(folds), *map(len, fold[1:]))
            _train(session, fold, checkpoint, zlib.crc32(folds_text.encode()), work / saving.WORDS)
        outcomes.append(saving.read_outcome(checkpoint))
    before = _ranked(session, session.queries, None)
    after: dict[str, RankedList] = {}
    for fold in folds:
        after |= _ranked(session, fold.test, _checkpoint(work, fold))
    after = {query.id: after[query.id] for query in session.queries}
    table = as_markdown(session, folds, outcomes, before, after)
    with replacing_folder(output, CROSS_VALIDATED, session.task.overwrite) as writing:
        for fold in folds:
            saving.link_all(_checkpoint(work, fold), _checkpoint(writing, fold))
        (writing / FOLDS_FILE).write_text(folds_text, encoding="utf-8")
        (writing / TABLE_FILE).write_text(table, encoding="utf-8")
        write_run(writing / RUN_FILE, after, session.task.model)
    remove_folder(work)
    return table


def _checkpoint(folder: Path, fold: Fold) -> Path:
    return folder / f"fold-{fold.name}"


def _settings(session: Session, folds: Sequence[Fold]) -> dict:
    """The settings that a resumed cross-validation must share, as JSON values."""
    settings = {
        "data": session.data,
        "training": asdict(session.task.training),
        "model": asdict(session.model_config),  # type: ignore[call-overload]  # a dataclass, as all ModelConfigs
        "measures": list(session.task.measures),
        "keep_epochs": session.task.keep_epochs,
        "folds": {fold.name: [query.id for query in fold.test] for fold in folds},
        "validation": {fold.name: [query.id for query in fold.validation] for fold in folds},
    }
    return json.loads(json.dumps(settings))


def _check(work: Path, settings: dict, task: TrainingTask) -> None:
    """Check that the work folder is new or can be resumed; remove it to overwrite it."""
    path = work / CROSS_VALIDATION_FILE
    if work.is_dir() and any(work.iterdir()) and not path.exists():
        raise InputError(f"{work} holds another training: finish or delete it")
    if not saving.check_interrupted(work, INTERRUPTED, task.resume, task.overwrite):
        return
    if not task.resume:
        remove_folder(work)
        return
    saving.check_settings(path, "a cross-validation", read_object(path, START_OVER), settings)


def _warn_if_folds_were_seen(session: Session) -> None:
    task = session.task
    start = Checkpoint.open(task.start_from).description if task.start_from else {}
    if start.get("training", {}).get("train") == task.train:
        log.warning("%s was trained on %s, too: its weights have seen every fold", task.start_from, task.train)


def _train(session: Session, fold: Fold, output: Path, folds_checksum: int, words: Path) -> None:
    task = session.task
    train = {query.id for query in fold.train}
    pools = [pool for pool in session.pools if pool.query_id in train]
    depth = task.validation_depth or task.depth
    judgments = {query.id: session.judgments[query.id] for query in fold.validation}
    candidates = {query.id: _top_candidates(session, query, depth) for query in fold.validation}
    of_fold = {"fold": fold.name, "folds_checksum": folds_checksum, "validation_queries": list(judgments)}
    highest = max(max(session.judgments[query.id].values()) for query in session.queries)  # same ERR scale in all folds
    held_out = HeldOut(fold.validation, judgments, candidates, highest)
    session.train(output, pools, held_out, data={**session.data, **of_fold}, words=words, overwrite=True)


def _top_candidates(session: Session, query: Query, depth: int) -> Candidates:
    """The top ``depth`` candidates; all for a first stage of every document, whose depth cuts rankings instead.

    A copy, because scored candidates keep their gathered words.
    """
    candidates, first_stage = session.candidates[query.id], session.task.first_stage
    if session.task.train_run is None and first_stage is not None and entry_of(first_stage.name).depth_cuts == RANKING:
        depth = len(candidates)
    return Candidates(candidates.index, candidates.rows[:depth], candidates.first_stage_scores[:depth])


def _ranked(session: Session, queries: Sequence[Query], checkpoint: Path | None) -> dict[str, RankedList]:
    """Ranked lists by query id: re-ranked by a checkpoint's model, or in first-stage order for None."""
    depth, reranker = session.task.depth, None
    if checkpoint is not None:
        opened = Checkpoint.open(checkpoint)
        reranker = NeuralReranker(opened.module(), opened.vocabulary, session.index.forward, session.running)
        rows = [session.candidates[query.id].rows for query in queries]
        reranker.encode_in_memory(np.unique(np.concatenate(rows)))
    ranked = rank_all(queries, lambda query: _top_candidates(session, query, depth), reranker, 1, 8)
    rankings = (ranking.best(depth) for ranking in ranked)
    return {ranking.query.id: RankedList(ranking.doc_ids, ranking.ranked_scores) for ranking in rankings}


def as_markdown(
    session: Session,
    folds: Sequence[Fold],
    outcomes: Sequence[Outcome],
    before: dict[str, RankedList],
    after: dict[str, RankedList],
) -> str:
    """A table with a row for each fold and a total: means in validation, in first-stage order, and re-ranked."""
    measures = session.task.measures
    evaluator = Evaluator({query.id: session.judgments[query.id] for query in session.queries}, measures)
    places = {query: number for number, query in enumerate(evaluator.queries)}
    values = [evaluator.values(run) for run in (before, after)]
    kinds = ("validation", "candidates", "re-ranked")
    rows = [["fold", "queries", "best epoch", *(f"{kind} {name}" for name in measures for kind in kinds)]]
    for fold, outcome in zip(folds, outcomes):
        of_fold = np.array([places[query.id] for query in fold.test])
        fold_values = [{name: of_run[name][of_fold] for name in measures} for of_run in values]
        cells = _cells(evaluator, fold_values, outcome.measures)
        rows.append([fold.name, str(len(fold.test)), f"{outcome.epoch} of {outcome.epochs}", *cells])
    rows.append(["all", str(len(places)), "", *_cells(evaluator, values, {})])
    return tables.markdown(rows) + (
        "\n+ higher, - lower, = no significant difference from the candidates' order: two-tailed paired t-test over "
        f"the queries of the row, p < {ALPHA:g}, without correction.\n"
    )


def _cells(evaluator: Evaluator, values: Sequence[Values], validated: Mapping[str, float]) -> list[str]:
    """For each measure its value in validation, of the candidates, and, marked, of the re-ranked run."""
    before, after = (evaluator.summary(of_run) for of_run in values)
    cells = []
    for name in before:
        mark = paired_t_test(values[1][name], values[0][name]).mark(ALPHA)
        validation = f"{validated[name]:.4f}" if validated else ""
        cells += [validation, f"{before[name]:.4f}", f"{after[name]:.4f}{mark}"]
    return cells
