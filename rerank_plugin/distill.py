"""``rerank-plugin distill``: distils small models from a sentence encoder, without training judgments."""

from __future__ import annotations

import time
from pathlib import Path

from rerank_plugin import options as commandline
from rerank_plugin.corpora import CORPUS, QUERIES, accepted
from rerank_plugin.files.outputs import check_free
from rerank_plugin.training.config import by_recipe
from rerank_plugin.training.distillation_texts import DistillationConfig

STUDENTS = ("ktrel", "delta", "pacrr")
RERANKER = "students that re-rank (delta, pacrr)"


def arguments():
    parser = commandline.parser(
        "distill",
        "Distil a sentence encoder into a small model, without training judgments.\n"
        "ktrel becomes an encoder: 8-bit word vectors, whose sums encode thousands of documents a second.\n"
        "delta and pacrr re-rank: they learn the teacher's grades of BM25's candidates, fused with BM25 or a reranker.",
        epilog="examples:\n  rerank-plugin distill --corpus sample --passages 500 --batch-size 256 "
        "--output checkpoints/distilled\n"
        "  rerank-plugin distill --student delta --index indexes/sample --queries sample:train "
        "--validation sample:dev --output checkpoints/delta-distilled",
    )
    add = parser.add_argument
    add("--student", default="ktrel", choices=STUDENTS, help="model to distil")
    add("--teacher", default="minilm", help="folder of a sentence-transformers model, or minilm (extra 'minilm')")
    corpora = f"texts for ktrel: {accepted(CORPUS)}; may be repeated"
    add("--corpus", nargs="+", action="extend", metavar="C", default=[], help=corpora)
    queries = f"training queries: {accepted(QUERIES)}; may be repeated"
    add("--queries", action="append", default=[], help=queries)
    add("--output", type=Path, required=True, help="checkpoint folder to write")
    add("--overwrite", action="store_true", help="replace an existing checkpoint")
    _add_text_options(parser.add_argument_group("texts of ktrel").add_argument)
    _add_reranker_options(parser.add_argument_group(RERANKER).add_argument)
    training = parser.add_argument_group("training")
    commandline.add_settings(training, DistillationConfig, given_only=True)
    cache = "folder of the teacher's vectors, to resume an interrupted distillation"
    training.add_argument("--cache", type=Path, default=Path("runs/distill"), help=cache)
    training.add_argument("--device", default="cpu", help="torch device of the teacher: cpu, cuda, cuda:1, mps")
    precision = "precision of the teacher; bfloat16 is three times as fast on a CPU that multiplies in it"
    training.add_argument("--precision", default="float32", choices=("float32", "bfloat16"), help=precision)
    return parser


def _add_text_options(add) -> None:
    names = "concepts whose names to learn: MeSH or UMLS, as knowledge compile reads them; may be repeated"
    add("--vocabulary", action="append", default=[], metavar="SOURCE", help=names)
    concepts = (
        "compiled knowledge base (rerank-plugin knowledge compile) whose concepts get vectors, too; the student then "
        "needs indexes built with it"
    )
    add("--knowledge-base", type=Path, metavar="KB", help=concepts)
    add("--passages", type=int, default=40_000, help="largest number of passages of two sentences from each corpus")
    add("--beginnings", type=int, default=6000, help="largest number of beginnings of documents from each corpus")


def _add_reranker_options(add) -> None:
    from rerank_plugin.corpora.register import accepted_together

    add("--index", type=Path, help="index folder, in which BM25 finds the candidates")
    judged = f"queries and judgments to choose the best epoch: {accepted_together()}"
    add("--validation", metavar="QJ", help=judged)
    add("--words", default="ktrel", help="folder of word vectors, or a bundled model's name")
    add("--depth", type=int, default=100, help="candidates of each query")
    add(
        "--teacher-weight",
        type=float,
        default=0.5,
        metavar="W",
        help="weight of the teacher's cosine in a grade, 0 to 1",
    )
    fused = "reranker for the rest of a grade, such as delta (default: BM25)"
    add("--fuse-with", metavar="RERANKER", help=fused)
    by_name = "any hyper-parameter, by its name in config.json; may be repeated"
    add("--set", action="extend", nargs="+", default=[], metavar="NAME=VALUE", help=by_name)
    add("--resume", action="store_true", help="resume an interrupted training")


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = commandline.parse(parser, argv)
    parser.check_counts(options, "passages", "beginnings", "depth")
    needed = ("corpus",) if options.student == "ktrel" else ("index", "queries", "validation")
    if missing := [name for name in needed if not getattr(options, name)]:
        parser.error(f"the student {options.student} needs {commandline.flag(missing[0])}")
    _distil_words(options) if options.student == "ktrel" else _distil_reranker(options)


def _distil_words(options) -> None:
    """Distil the encoder ktrel."""
    config = commandline.configured(DistillationConfig, options, seed=options.seed)
    from rerank_plugin.models.checkpoint import CHECKPOINT
    from rerank_plugin.training.distillation import Teacher, distil, distil_concepts, save_student

    started = time.monotonic()
    check_free(options.output, CHECKPOINT, options.overwrite)
    annotator = _annotator(options.knowledge_base)
    teacher = Teacher(options.teacher, options.cache, options.device, options.precision)
    texts = _texts(options)
    vectors = distil(texts, teacher, config)
    concepts = annotator and distil_concepts(texts, teacher, config, annotator)
    made_from = {"teacher": options.teacher, "corpora": options.corpus}
    annotation = annotator and annotator.settings
    save_student(options.output, vectors, config, made_from, texts.statistics(), concepts, annotation)
    print(
        f"{options.output}: {len(vectors.vocabulary) - 1:,} words of {config.dimension} dimensions, from "
        f"{len(texts.texts):,} texts in {time.monotonic() - started:.0f} s"
    )


def _annotator(knowledge: Path | None):
    """The annotator of a knowledge base's concepts; None without a knowledge base."""
    if knowledge is None:
        return None
    from rerank_plugin.concepts.annotation import Annotator
    from rerank_plugin.concepts.knowledge_base import KnowledgeBase

    return Annotator(KnowledgeBase(knowledge))


def _distil_reranker(options) -> None:
    """Distil a reranker; the output is a checkpoint like that of a training."""
    from rerank_plugin.retrieval.register import configure
    from rerank_plugin.training.distillation import Teacher
    from rerank_plugin.training.saving import TRAINED
    from rerank_plugin.training.session import Session, TrainingTask
    from rerank_plugin.training.teacher_grades import STUDENTS, TRAINING, TeacherGrades

    check_free(options.output, TRAINED, options.overwrite)
    names = ("epochs", "batch_size", "learning_rate")
    overrides = {name: value for name in names if (value := getattr(options, name)) is not None}
    teacher = Teacher(options.teacher, options.cache, options.device, options.precision)
    task = TrainingTask(
        model=options.student,
        index=options.index,
        words=options.words,
        train=options.queries[0],
        more_train=tuple(options.queries[1:]),
        validation=options.validation,
        training=by_recipe(options.student, {**TRAINING, **overrides, "seed": options.seed}),
        values={**STUDENTS[options.student], **commandline.named_values(options.set)},
        first_stage=configure("bm25"),
        depth=options.depth,
        grades=TeacherGrades(teacher, options.teacher_weight, options.fuse_with),
        resume=options.resume,
        overwrite=options.overwrite,
    )
    outcome = Session(task).train(options.output)
    shown = ", ".join(f"{name} {value:.4f}" for name, value in outcome.measures.items())
    print(f"{options.output}: best epoch {outcome.epoch} of {outcome.epochs}, validation {shown}")


def _texts(options):
    """The texts of all corpora, queries and vocabularies."""
    from rerank_plugin.corpora import documents, queries
    from rerank_plugin.knowledge.sources import open_source
    from rerank_plugin.training.distillation_texts import DistillationTexts

    texts = DistillationTexts()
    for corpus in options.corpus:
        read = commandline.progress(documents(corpus, ids_required=False), f"reading {corpus}", "documents")
        texts.add_documents(read, options.passages, options.beginnings, options.seed)
    for spec in options.queries:
        for query in queries(spec):
            texts.add(query.text)
    for source in options.vocabulary:
        texts.add_concepts(open_source(source).concepts)
    return texts


if __name__ == "__main__":
    commandline.run(main)
