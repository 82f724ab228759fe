"""DRMM: the module, scored on the fast path of interaction models."""

from rerank_plugin.models.recipes import entry
from rerank_plugin.models.register import register

register(entry(__name__, "drmm", "Drmm", "DRMM (Guo et al. 2016): histograms of similarities, weighted by idf"))
