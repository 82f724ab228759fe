"""DUET: the module, scored on the fast path of interaction models, which computes its exact matches."""

from rerank_plugin.models.recipes import entry
from rerank_plugin.models.register import register

register(entry(__name__, "duet", "Duet", "DUET (Mitra et al. 2017): exact matches and learned representations"))
