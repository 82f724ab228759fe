from rerank_plugin.base.errors import InputError as InputError
from rerank_plugin.base.filters import Filter as Filter
from rerank_plugin.base.records import Document as Document
from rerank_plugin.base.records import Query as Query
from rerank_plugin.encoding.updates import update_index as update_index
from rerank_plugin.evaluation.judged_runs import evaluate_runs as evaluate_runs
from rerank_plugin.files.runs import RankedList as RankedList
from rerank_plugin.files.runs import read_run as read_run
from rerank_plugin.files.runs import write_run as write_run
from rerank_plugin.indexes.corpus_index import build_index as build_index
from rerank_plugin.indexes.index_folder import Index as Index
from rerank_plugin.ranking.explanation import Explanation as Explanation
from rerank_plugin.ranking.hits import Hit as Hit
from rerank_plugin.ranking.ranked_lists import rank as rank
from rerank_plugin.ranking.ranked_lists import rank_many as rank_many
from rerank_plugin.ranking.recommended import recommended as recommended
from rerank_plugin.ranking.reranker import RankedText as RankedText
from rerank_plugin.ranking.reranker import Reranker as Reranker
from rerank_plugin.ranking.searcher import Searcher as Searcher
from rerank_plugin.training.train_model import train_model as train_model

__version__: str
__all__: list[str]
