"""DRMM: the module and its fast path."""
