"""Adapters to other libraries, a module each, which imports its library and no other's; each is an extra.

What several of them do is in :mod:`rerank_plugin.integrations.documents`.
"""
