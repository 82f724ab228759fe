"""``python -m rerank_plugin.knowledge annotate`` and ``evaluate``: mark concepts in a text, and measure how well."""

from __future__ import annotations

import json
import time

from rerank_plugin.files.progress import progress

BATCH = 2000  # texts that are timed at once


def _annotator(options, knowledge, threshold: float | None):
    """The annotator of a command's options; without a threshold it finds equal names only."""
    from rerank_plugin.knowledge.annotation import Annotator, AnnotatorConfig

    config = AnnotatorConfig(
        candidates=options.candidates,
        threshold=1.0 if threshold is None else threshold,
        window=options.window,
        approximate=threshold is not None,
        overlap=options.overlap,
    )
    return Annotator(knowledge, config, options.threads)


def annotate(options) -> None:
    from rerank_plugin.knowledge.knowledge_base import KnowledgeBase

    knowledge = KnowledgeBase(options.knowledge)
    started = time.monotonic()
    annotator = _annotator(options, knowledge, None if options.exact else options.threshold)
    if options.corpus:
        opened = time.monotonic() - started
        print(f"{options.knowledge}: {len(knowledge):,} concepts, annotator ready in {opened:.2f} s")
        _measure(options.corpus, annotator)
    else:
        _show(options.text, annotator)


def _show(text: str, annotator) -> None:
    from rerank_plugin.files.tables import aligned

    knowledge = annotator.knowledge
    table = [("text", "place", "similarity", "concept", "name")]
    for mention in annotator.annotate(text):
        what = (" ".join(text[mention.start : mention.end].split()), f"{mention.start}-{mention.end}")
        for row, similarity in zip(mention.concepts, mention.similarities):
            table.append((*what, f"{similarity:.2f}", knowledge.ids[row], knowledge.names[row]))
            what = ("", "")
    print(aligned(table, texts=len(table[0])) if len(table) > 1 else "no concept found", end="\n" * (len(table) == 1))


def _measure(corpus: str, annotator) -> None:
    """Annotate a corpus batch by batch; what is read in between is not timed."""
    from itertools import islice

    from rerank_plugin.corpora import documents

    source = progress(documents(corpus, ids_required=False), f"annotating {corpus}", "documents")
    texts = (f"{document.title}\n{document.abstract}" for document in source)
    annotator.concepts(["compiles what is not compiled yet"])
    speeds, count, words, concepts, wall, processor = [], 0, 0, 0, 0.0, 0.0
    while batch := list(islice(texts, BATCH)):
        started, cpu = time.perf_counter(), time.process_time()
        found = annotator.concepts(batch)
        took = time.perf_counter() - started
        processor += time.process_time() - cpu
        wall += took
        speeds.append(len(batch) / took)
        count, words = count + len(batch), words + sum(len(text.split()) for text in batch)
        concepts += sum(map(len, found))
    if not count:
        print(f"{corpus}: no document")
        return
    middle = sorted(speeds)[len(speeds) // 2]
    print(
        f"{corpus}: {count:,} documents of {words / count:.0f} words, {concepts / count:.1f} concepts each\n"
        f"{count / wall:.0f} documents a second with {annotator.threads} threads (median of batches {middle:.0f}), "
        f"{count / processor:.0f} a second of processor time"
    )


def evaluate(options) -> None:
    from rerank_plugin.files.tables import aligned, markdown
    from rerank_plugin.knowledge import annotation_quality, pubtator
    from rerank_plugin.knowledge.knowledge_base import KnowledgeBase

    knowledge = KnowledgeBase(options.knowledge)
    texts = [text for path in options.gold for text in pubtator.read(path)]
    gold = annotation_quality.gold(texts, knowledge)
    rows = []
    for threshold in (None, *options.thresholds):
        setting = "exact" if threshold is None else f"{threshold:g}"
        found = _annotator(options, knowledge, threshold).annotate_all(gold.texts)
        rows += annotation_quality.rows(setting, found, gold, knowledge)
    if options.format == "json":
        print(json.dumps(_described(gold, rows), indent=1))
        return
    left_out = ", ".join(f"{count:,} {why}" for why, count in sorted(gold.left_out.items())) or "none"
    mentions = sum(map(len, gold.spans))
    print(f"{len(gold.texts):,} texts, {mentions:,} gold mentions; left out: {left_out}\n")
    print((markdown if options.format == "markdown" else aligned)(_table(rows), texts=3), end="")


def _table(rows) -> list[list[str]]:
    """Precision, recall and F1 of each measure, in percent."""
    from rerank_plugin.knowledge.annotation_quality import MEASURES

    header = ["setting", "gold", "found", *(f"{measure} {what}" for measure in MEASURES for what in ("P", "R", "F1"))]
    table = [header]
    for row in rows:
        values = (row.scores[measure] for measure in MEASURES)
        numbers = (value for score in values for value in (score.precision, score.recall, score.f1))
        table.append([row.setting, row.kind, row.found, *(f"{100 * number:.1f}" for number in numbers)])
    return table


def _described(gold, rows) -> dict:
    """What evaluate prints as JSON."""
    return {
        "texts": len(gold.texts),
        "mentions": sum(map(len, gold.spans)),
        "left_out": dict(gold.left_out),
        "rows": [
            {
                "setting": row.setting,
                "gold": row.kind,
                "found": row.found,
                "scores": {
                    measure: {**score._asdict(), "precision": score.precision, "recall": score.recall, "f1": score.f1}
                    for measure, score in row.scores.items()
                },
            }
            for row in rows
        ],
    }
