"""MatchPyramid: the module, with the fast path and the attribution of interaction models."""

from rerank_plugin.models.recipes import entry
from rerank_plugin.models.register import register

SUMMARY = "MatchPyramid (Pang et al. 2016): convolutions over the matrix of similarities"
register(entry(__name__, "matchpyramid", "MatchPyramid", SUMMARY, explain=None))
