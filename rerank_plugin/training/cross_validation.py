"""Cross-validation in round-robin order ([P] 3.1): a model for each fold, and a run in which each ranks its own fold.

The output is a folder with a checkpoint for each fold, ``fold-NAME``; the folds, ``folds.tsv``; the run
``cross-validated.run``, where every query is ranked by the model of its fold, which never saw it; and a table of the
measures, ``cross-validation.md``. Until all folds are finished, ``OUTPUT.training`` holds the finished ones.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.evaluation.measures import Evaluator, Values
from rerank_plugin.evaluation.significance import paired_t_test
from rerank_plugin.files import tables
from rerank_plugin.files.artifact import read_object
from rerank_plugin.files.outputs import FolderKind, remove_folder, replacing_folder
from rerank_plugin.files.runs import RankedList, write_run
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.models.checkpoint import CONFIG_FILE, Checkpoint
from rerank_plugin.ranking.pipeline import rank_all
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.retrieval.register import RANKING, entry_of
from rerank_plugin.text.word_vectors import WORD_VECTORS
from rerank_plugin.training import saving
from rerank_plugin.training.folds import Fold, as_text
from rerank_plugin.training.saving import TRAINED, Outcome
from rerank_plugin.training.session import CROSS_VALIDATION_FILE, Session, TrainingTask
from rerank_plugin.training.trainer import START_OVER, write
from rerank_plugin.training.validation import HeldOut

log = logging.getLogger(__name__)

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
        opened, options = Checkpoint.open(checkpoint), RerankerOptions(session.task.device)
        reranker = NeuralReranker(opened.module(), opened.vocabulary, session.index.forward, options)
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
