"""The papers' experiments, on the library and its commands: ``python -m experiments``, from the repository's root."""

import logging

logging.getLogger(__name__).setLevel(logging.INFO)  # like the package's logger, which the commands set up
