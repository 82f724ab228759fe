"""``python -m rerank_plugin.distill``: makes an encoder of word vectors from a sentence encoder, without judgments."""

from __future__ import annotations

import time
from pathlib import Path

from rerank_plugin import options as commandline
from rerank_plugin.corpora import CORPUS, QUERIES, accepted


def arguments():
    parser = commandline.parser(
        "distill",
        "Distil a sentence encoder into word vectors whose sums encode texts (KTRel of words, without its layer), as\n"
        "8-bit numbers. The student encodes thousands of documents a second; no judgments are needed.",
        epilog="example:\n  python -m rerank_plugin.distill --teacher minilm --corpus sample --passages 500 "
        "--batch-size 256 --output checkpoints/distilled",
    )
    parser.add_argument(
        "--teacher", default="minilm", help="a folder of sentence-transformers, or minilm (extra 'minilm')"
    )
    parser.add_argument(
        "--corpus", action="append", required=True, help=f"texts to learn from: {accepted(CORPUS)}; may be repeated"
    )
    parser.add_argument(
        "--queries", action="append", default=[], help=f"queries to learn from: {accepted(QUERIES)}; may be repeated"
    )
    parser.add_argument(
        "--vocabulary", action="append", default=[], metavar="SOURCE",
        help="names of concepts to learn from: MeSH or UMLS files, as knowledge compile reads them; may be repeated",
    )  # fmt: skip
    parser.add_argument("--output", type=Path, required=True, help="checkpoint to write")
    parser.add_argument("--overwrite", action="store_true", help="replace a checkpoint that is there already")
    parser.add_argument(
        "--cache", type=Path, default=Path("runs/distill"),
        help="keep the teacher's vectors here; an interrupted distillation goes on from them",
    )  # fmt: skip
    texts = parser.add_argument_group("texts")
    texts.add_argument("--passages", type=int, default=4000, help="passages of two sentences from each corpus, at most")
    texts.add_argument("--beginnings", type=int, default=500, help="beginnings of documents from each corpus, at most")
    texts.add_argument("--min-count", type=int, default=3, help="rarer words get no vector")
    training = parser.add_argument_group("training")
    training.add_argument("--dimension", type=int, default=256, help="dimension of the vectors")
    training.add_argument("--epochs", type=int, default=6, help="passes over the texts")
    training.add_argument("--batch-size", type=int, default=1024, help="texts to a step")
    training.add_argument("--learning-rate", type=float, default=2e-3, help="of Adam")
    training.add_argument("--device", default="cpu", help="torch device of the teacher: cpu, cuda, cuda:1, mps")
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = parser.parse_args(argv)
    commandline.set_up_logging(options.verbose)
    for name in ("passages", "beginnings", "min_count", "dimension", "epochs", "batch_size"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    from rerank_plugin.files.outputs import check_free
    from rerank_plugin.models.checkpoints import CHECKPOINT
    from rerank_plugin.training.distillation import DistillationConfig, Teacher, distil, save_student

    started = time.monotonic()
    check_free(options.output, CHECKPOINT, options.overwrite)
    teacher = Teacher(options.teacher, options.cache, options.device)
    config = DistillationConfig(
        options.dimension, options.min_count, options.epochs, options.batch_size, options.learning_rate,
        seed=options.seed,
    )  # fmt: skip
    texts = _texts(options)
    vectors = distil(texts, teacher, config, lambda items, what: commandline.progress(items, what, "steps", len(items)))
    save_student(options.output, vectors, config, {"teacher": options.teacher, "corpora": options.corpus})
    print(
        f"{options.output}: {len(vectors.vocabulary) - 1:,} words of {options.dimension} dimensions, from "
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
