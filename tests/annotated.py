"""Small indexes with concepts, made without Java: a hand-made knowledge base and the real annotator."""

from rerank_plugin.concepts.annotation import Annotator, AnnotatorConfig
from rerank_plugin.concepts.knowledge_base import KnowledgeBase
from rerank_plugin.indexes.index_concepts import IndexKnowledge
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.knowledge.compiling import compile_knowledge
from rerank_plugin.knowledge.entries import Concept, Relation, Source
from tests import small

# 'attack' is the name of two concepts, so that a mention has candidates. Nothing is said of Xylitol, 2's document.
CONCEPTS = [
    Concept("H01", "heart attack", ("myocardial infarction",), ("disease",)),
    Concept("H02", "aspirin", ("acetylsalicylic acid",), ("drug",)),
    Concept("H03", "stroke", ("cerebral infarction",), ("disease",)),
    Concept("H04", "women", (), ("person",)),
    Concept("H05", "migraine", ("migraine headache",), ("disease",)),
    Concept("H06", "cancer", ("neoplasm",), ("disease",)),
    Concept("H07", "colon cancer", (), ("disease",)),
    Concept("H08", "heart failure", (), ("disease",)),
    Concept("H09", "attack", ("heart disease",), ("event",)),
    Concept("H10", "smoke", ("attack",), ("event",)),
    Concept("H11", "warfarin", (), ("drug",)),
]
RELATIONS = [Relation("H07", "broader", "H06"), Relation("H02", "treats", "H01")]


def knowledge_base(folder, concepts=CONCEPTS, relations=RELATIONS, **options):
    compile_knowledge(Source("tests", iter(concepts), iter(relations)), folder, "tests", **options)
    return KnowledgeBase(folder)


def build_index(folder, documents=small.DOCUMENTS, concepts=CONCEPTS, config=AnnotatorConfig()):
    """An index folder of documents that is complete for opening, but for Lucene's."""
    annotator = Annotator(knowledge_base(folder / "knowledge", concepts), config, threads=1)
    forward = small.build_index(folder, documents, annotator)
    small.describe(forward, IndexKnowledge(folder / "knowledge", annotator.settings))
    return Index(folder)
