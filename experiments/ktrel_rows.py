"""The rows of [K]'s experiments: those of table 1 and ours, their training options, and the published values."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from experiments.delta import WITH_LEX3
from experiments.plan import SENTENCES, SENTENCES_TITLE
from rerank_plugin.inputs.lexical_features import FIRST_STAGE_SHARE


class Kind(Enum):
    """The kinds of a row's run."""

    LEXICAL = "a search of Lucene with tuned parameters"
    INTERACTION = "a model that scores every pair of query and document"
    PAPER = "KTRel as [K] 4.2 trains it"
    OURS = "KTRel by RECIPE"
    TEXTS = "a sentence encoder as it is published"
    CROSS = "a cross-encoder over the sentence encoder, which re-ranks the top of RM3"
    FEEDBACK = "dense search with pseudo-relevance feedback"
    NEIGHBOURS = "the judgments of similar training queries"
    FUSED = "a fusion of other rows' runs"
    RERANKED = "the top of HYBRID, re-ranked"
    NOT_RUN = "published values only"


ENCODERS = (Kind.PAPER, Kind.OURS)
TUNED = (Kind.INTERACTION, Kind.PAPER)  # by equally many trials
TRAINED = (Kind.INTERACTION, *ENCODERS, Kind.CROSS, Kind.RERANKED)
OF_ENCODER = (Kind.TEXTS, Kind.CROSS)

BM25, RM3, HYBRID = "bm25", "bm25-rm3", "hybrid"
BEST = "best"  # placeholder of the row of OURS with the highest validation MAP
VALIDATION_MEASURES = ("AP", "nDCG@10")  # [K] 4.2 stops and chooses by MAP

# Our recipe, tuned on NFCorpus's dev split.
RECIPE = (
    "--loss softmax --batch-size 256 --learning-rate 0.002 --queries-per-document 4 --epochs 40 --patience 8 --set "
    "document_words=250 query_words=32 layers=0 unit_vectors=true embedding_dropout=0.3 factor=1"
).split()

# Settings of [K]'s recipe that the paper does not give and that take most of the time: the lengths of texts, and the
# queries of each document in a batch.
LENGTHS = "--queries-per-document 2 --set document_words=100 document_concepts=100 query_concepts=32".split()


class KtrelRow(NamedTuple):
    """A row of table 1.

    Its stages are the rows that a fused row fuses, or the row whose encodings FEEDBACK and NEIGHBOURS search. BEST is
    chosen after the trainings.
    """

    name: str  # of its runs and checkpoint
    title: str
    kind: Kind
    train: str = ""  # options of its training, if any
    stages: tuple[str, ...] = ()
    method: str = "linear"  # of a fused row; weights of ``linear`` are tuned on the validation queries
    pretrained: bool = False  # whether its training starts from a model of titles and abstracts

    @property
    def reads_concepts(self) -> bool:
        """Whether its training takes concept vectors."""
        return self.kind in ENCODERS and "ktrel-w" not in self.train


_DOCUMENTS = "--training-documents collection"
# [K] 4.3 trains the last layer of BERT. Document and query have room for 128 word pieces together.
CROSS_ENCODER = (
    "--model bert --batch-size 32 --optimizer adam --learning-rate 1e-4 --set document_words=96 query_words=32"
)
ROWS = (
    KtrelRow(BM25, "BM25", Kind.LEXICAL),
    KtrelRow(RM3, "BM25-RM3", Kind.LEXICAL),
    KtrelRow("duet", "DUET", Kind.INTERACTION, f"--model duet {_DOCUMENTS} --set parts=both"),  # local and distributed
    KtrelRow("knrm", "KNRM", Kind.INTERACTION, f"--model knrm {_DOCUMENTS}"),
    KtrelRow("drmm", "DRMM", Kind.INTERACTION, f"--model drmm {_DOCUMENTS} --set hidden=[14]"),
    KtrelRow("conv-knrm", "Conv-KNRM", Kind.INTERACTION, f"--model conv-knrm {_DOCUMENTS}"),
    KtrelRow("bert", "BERT", Kind.NOT_RUN),
    KtrelRow("biobert", "BioBERT", Kind.NOT_RUN),
    KtrelRow("ktrel-c", "KTRel-C", Kind.PAPER, "--model ktrel-c"),
    KtrelRow("ktrel-w", "KTRel-W", Kind.PAPER, "--model ktrel-w"),
    KtrelRow("ktrel", "KTRel", Kind.PAPER, "--model ktrel"),
    KtrelRow("ktrel-c-ours", "KTRel-C, our recipe", Kind.OURS, "--model ktrel-c"),
    KtrelRow("ktrel-w-ours", "KTRel-W, our recipe", Kind.OURS, "--model ktrel-w"),
    KtrelRow("ktrel-ours", "KTRel, our recipe", Kind.OURS, "--model ktrel"),
    KtrelRow("ktrel-w-titles", "KTRel-W, our recipe, pre-trained", Kind.OURS, "--model ktrel-w", pretrained=True),
    KtrelRow("ktrel-titles", "KTRel, our recipe, pre-trained", Kind.OURS, "--model ktrel", pretrained=True),
    KtrelRow(SENTENCES, SENTENCES_TITLE, Kind.TEXTS),
    KtrelRow("cross-encoder", "Cross-encoder, last layer trained", Kind.CROSS, CROSS_ENCODER),
    KtrelRow(
        "cross-encoder-whole",
        "Cross-encoder, all layers trained",
        Kind.CROSS,
        f"{CROSS_ENCODER} --set trainable_layers=null --learning-rate 2e-5",
    ),
    KtrelRow("feedback", "The best of our recipe, with feedback", Kind.FEEDBACK, stages=(BEST,)),
    KtrelRow("feedback-w", "KTRel-W, pre-trained, with feedback", Kind.FEEDBACK, stages=("ktrel-w-titles",)),
    KtrelRow("feedback-both", "KTRel, pre-trained, with feedback", Kind.FEEDBACK, stages=("ktrel-titles",)),
    KtrelRow("hybrid-rrf", "BM25-RM3 and KTRel, rrf", Kind.FUSED, stages=(RM3, BEST), method="rrf"),
    KtrelRow(HYBRID, "BM25-RM3 and KTRel, linear", Kind.FUSED, stages=(RM3, BEST)),
    KtrelRow("hybrid-feedback", "BM25-RM3 and KTRel with feedback", Kind.FUSED, stages=(RM3, "feedback")),
    KtrelRow(
        "hybrid-both",
        "BM25-RM3, KTRel-W and KTRel with feedback",
        Kind.FUSED,
        stages=(RM3, "feedback-w", "feedback-both"),
    ),
    KtrelRow(
        "hybrid-delta",
        "BM25-RM3 and KTRel, linear, re-ranked by Delta",
        Kind.RERANKED,
        f"{WITH_LEX3} {FIRST_STAGE_SHARE}",
    ),
    KtrelRow("neighbours", "Judgments of similar queries", Kind.NEIGHBOURS, stages=(BEST,)),
    KtrelRow(
        "hybrid-neighbours",
        "BM25-RM3, KTRel with feedback, similar queries",
        Kind.FUSED,
        stages=(RM3, "feedback", "neighbours"),
    ),
)
BY_NAME = {row.name: row for row in ROWS}
FIGURE = ("drmm", "duet", "knrm", "conv-knrm", "ktrel", "ktrel-ours")  # of figure 2, without its lexical rows


class Ingredient(NamedTuple):
    """A training that differs from RECIPE in one thing."""

    name: str  # of its checkpoint
    title: str
    base: str  # the row of which it is a variant
    train: str = ""  # options that override the recipe's; hyper-parameters of --set are overridden one by one
    sets: int | None = None  # number of training sets, from the first; None for all
    plain: bool = False  # whether words are not stemmed; needs its own index and word vectors
    concepts: bool = True  # whether concept vectors are given; otherwise they are random
    extended: bool = True  # whether each word of the index without a vector gets its own random one


# The paper's loss goes with its optimizer's default learning rate, the middle of its batch sizes, and factors as there.
_MARGIN = "--loss hinge --weights none --sampling batch --batch-size 20 --learning-rate 0.001 --set factor=20"
_LAYER = "--set layers=1 heads=5 feed_forward=200 identity_start=true dropout=0.2 embedding_dropout=0"

INGREDIENTS = (
    Ingredient("recipe", "our recipe", "ktrel-ours"),
    Ingredient("words", "without concepts (KTRel-W)", "ktrel-w-ours"),
    Ingredient("concepts", "without words (KTRel-C)", "ktrel-c-ours"),
    Ingredient("margin", "the paper's margin loss", "ktrel-ours", _MARGIN),
    Ingredient("words-margin", "KTRel-W, the paper's margin loss", "ktrel-w-ours", _MARGIN),
    Ingredient("titles", "the first training set alone", "ktrel-ours", sets=1),
    Ingredient("words-titles", "KTRel-W, the first training set alone", "ktrel-w-ours", sets=1),
    Ingredient("words-cold", "KTRel-W, temperature 0.05", "ktrel-w-ours", "--temperature 0.05"),
    Ingredient("words-warm", "KTRel-W, temperature 0.2", "ktrel-w-ours", "--temperature 0.2"),
    Ingredient("words-unknown", "KTRel-W, one vector for all rare words", "ktrel-w-ours", extended=False),
    Ingredient("words-layer", "KTRel-W, with the transformer layer", "ktrel-w-ours", _LAYER),
    Ingredient("words-dropout", "KTRel-W, dropout 0.1", "ktrel-w-ours", "--set embedding_dropout=0.1"),
    Ingredient("words-lengths", "KTRel-W, vectors of any length", "ktrel-w-ours", "--set unit_vectors=false"),
    Ingredient("words-short", "KTRel-W, 100 words of a document", "ktrel-w-ours", "--set document_words=100"),
    Ingredient("random-concepts", "concepts without vectors of the graph", "ktrel-ours", concepts=False),
    Ingredient("words-plain", "KTRel-W, words without stemming", "ktrel-w-ours", plain=True),
)


# [K] table 1, by its columns; + and - against BM25-RM3, p < 0.01.
MEASURES = {
    "P@5": "P@5", "P@10": "P@10", "P@20": "P@20", "nDCG@5": "nDCG@5", "nDCG@10": "nDCG@10", "nDCG@20": "nDCG@20",
    "AP": "MAP", "R@1000": "Recall",
}  # fmt: skip
PUBLISHED = {
    name: tuple(values.split())
    for name, values in {
        BM25: "0.2846- 0.2419- 0.1733- 0.3524- 0.3267- 0.3038- 0.1548- 0.4740-",
        RM3: "0.3056 0.2603 0.1912 0.3664 0.3431 0.3249 0.1801 0.6249",
        "duet": "0.1967- 0.1840- 0.1561- 0.1857- 0.1883- 0.1892- 0.1264- 0.7673+",
        "knrm": "0.2082- 0.1887- 0.1617- 0.1914- 0.1914- 0.1936- 0.1216- 0.7764+",
        "drmm": "0.2940 0.2489 0.1819 0.3540 0.3330 0.3116 0.1651 0.7051+",
        "conv-knrm": "0.3146 0.2865 0.2378+ 0.3010- 0.3090- 0.3138 0.2110+ 0.8143+",
        "bert": "0.2084- 0.1998- 0.1536- 0.2090- 0.2196- 0.2062- 0.1567- 0.7847+",
        "biobert": "0.3148 0.2989+ 0.2373+ 0.3508 0.3377 0.3228 0.2358+ 0.8265+",
        "ktrel-c": "0.3127 0.2889+ 0.2304+ 0.3285- 0.3295- 0.3094- 0.2194+ 0.8047+",
        "ktrel-w": "0.3204+ 0.3008+ 0.2377+ 0.3465 0.3369 0.3141 0.2228+ 0.8187+",
        "ktrel": "0.3554+ 0.3294+ 0.2498+ 0.3708 0.3584 0.3424+ 0.2411+ 0.8520+",
    }.items()
}
