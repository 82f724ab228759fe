"""MatchPyramid: the module, scored and explained as its family is."""

from rerank_plugin.models.recipes import entry
from rerank_plugin.models.register import register

SUMMARY = "MatchPyramid (Pang et al. 2016): convolutions over the matrix of similarities"
register(entry(__name__, "matchpyramid", "MatchPyramid", SUMMARY, explain=None))
