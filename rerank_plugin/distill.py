"""``python -m rerank_plugin.distill``: makes an encoder of word vectors from a sentence encoder, without judgments."""

from __future__ import annotations

import time
from pathlib import Path

from rerank_plugin import options as commandline
from rerank_plugin.corpora import CORPUS, QUERIES, accepted
from rerank_plugin.training.distillation_texts import DistillationConfig


def arguments():
    parser = commandline.parser(
        "distill",
        "Distil a sentence encoder into word vectors whose sums encode texts (KTRel of words, without its layer), as\n"
        "8-bit numbers. The student encodes thousands of documents a second; no judgments are needed.",
        epilog="example:\n  python -m rerank_plugin.distill --teacher minilm --corpus sample --passages 500 "
        "--batch-size 256 --output checkpoints/distilled",
    )
    add = parser.add_argument
    add("--teacher", default="minilm", help="a folder of sentence-transformers, or minilm (extra 'minilm')")
    corpora = f"texts to learn from: {accepted(CORPUS)}; may be repeated"
    add("--corpus", action="append", required=True, help=corpora)
    add("--output", type=Path, required=True, help="checkpoint to write")
    add("--overwrite", action="store_true", help="replace a checkpoint that is there already")
    texts = parser.add_argument_group("texts").add_argument
    queries = f"queries to learn from: {accepted(QUERIES)}; may be repeated"
    texts("--queries", action="append", default=[], help=queries)
    names = "concepts to learn the names of: MeSH or UMLS, as knowledge compile reads them; may be repeated"
    texts("--vocabulary", action="append", default=[], metavar="SOURCE", help=names)
    texts("--passages", type=int, default=40_000, help="passages of two sentences from each corpus, at most")
    texts("--beginnings", type=int, default=6000, help="beginnings of documents from each corpus, at most")
    cache = "keep the teacher's vectors here: an interrupted distillation goes on from them"
    texts("--cache", type=Path, default=Path("runs/distill"), help=cache)
    training = parser.add_argument_group("training")
    commandline.add_settings(training, DistillationConfig)
    training.add_argument("--device", default="cpu", help="torch device of the teacher: cpu, cuda, cuda:1, mps")
    precision = "of the teacher: float32, or bfloat16, three times as fast where the machine multiplies in it"
    training.add_argument("--precision", default="float32", choices=("float32", "bfloat16"), help=precision)
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = commandline.parse(parser, argv)
    parser.check_counts(options, "passages", "beginnings")
    config = commandline.configured(DistillationConfig, options, seed=options.seed)
    from rerank_plugin.files.outputs import check_free
    from rerank_plugin.models.checkpoints import CHECKPOINT
    from rerank_plugin.training.distillation import Teacher, distil, save_student

    started = time.monotonic()
    check_free(options.output, CHECKPOINT, options.overwrite)
    teacher = Teacher(options.teacher, options.cache, options.device, options.precision)
    texts = _texts(options)
    vectors = distil(texts, teacher, config, lambda items, what: commandline.progress(items, what, "steps", len(items)))
    made_from = {"teacher": options.teacher, "corpora": options.corpus}
    save_student(options.output, vectors, config, made_from, texts.statistics())
    print(
        f"{options.output}: {len(vectors.vocabulary) - 1:,} words of {config.dimension} dimensions, from "
        f"{len(texts.texts):,} texts in {time.monotonic() - started:.0f} s"
    )


def _texts(options):
    """The texts of all that is named."""
    from rerank_plugin.corpora import documents, queries
    from rerank_plugin.knowledge.sources import open_source
    from rerank_plugin.training.distillation_texts import DistillationTexts

    texts = DistillationTexts()
    for corpus in options.corpus:
        found = commandline.progress(documents(corpus, ids_required=False), f"reading {corpus}", "documents")
        texts.add_documents(found, options.passages, options.beginnings, options.seed)
    for spec in options.queries:
        for query in queries(spec):
            texts.add(query.text)
    for source in options.vocabulary:
        texts.add_concepts(open_source(source).concepts)
    return texts


if __name__ == "__main__":
    commandline.run(main)
