"""Adapters to other libraries, a module each, which imports its library and no other's; each is an extra.

What several of them do is in :mod:`rerank_plugin.integrations.documents`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from rerank_plugin.files.errors import InputError


class MissingExtraError(InputError, ImportError):
    """A library that an adapter is for cannot be imported."""


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Within it a library is imported that the extra ``name`` installs.

    Raises:
        MissingExtraError: it is not there, or too old.
    """
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(f"{error}: pip install 'rerank_plugin[{name}]'") from error
