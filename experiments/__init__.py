"""The papers' experiments, on the library and its commands: ``python -m experiments``, from the repository's root."""
