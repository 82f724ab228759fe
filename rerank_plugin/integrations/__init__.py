"""Adapters to other libraries: a module and an extra for each library, which only its module imports.

Code that several adapters use is in :mod:`rerank_plugin.integrations.documents`.
"""
