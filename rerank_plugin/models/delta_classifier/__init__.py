"""The classifier of [D17] 4: the module and its fast path."""
