"""PACRR ([P] 2): the module and its fast path."""
