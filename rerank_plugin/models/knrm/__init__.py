"""KNRM: the module, scored on the fast path of interaction models."""

from rerank_plugin.models.recipes import entry
from rerank_plugin.models.register import register

register(entry(__name__, "knrm", "Knrm", "KNRM (Xiong et al. 2017): kernels over the similarities of words"))
