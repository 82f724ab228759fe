"""Conv-KNRM: the module and its fast path."""
