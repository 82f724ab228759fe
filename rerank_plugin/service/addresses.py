"""Addresses of requests: the names of the service that clients may use, and the spelling of paths."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

from rerank_plugin.service.errors import RequestError
from rerank_plugin.service.settings import ServiceConfig

DOCUMENT = re.compile(r"(/+v1/+[^/]+/+doc/+)(.*)", re.DOTALL)  # what follows is a document id, with slashes of its own


def canonical_path(path: str) -> str:
    """The path with single slashes and without one at its end, except in document ids and in folders of pages."""
    start, docid = found.groups() if (found := DOCUMENT.fullmatch(path)) else (path, "")
    start = re.sub("/+", "/", start)
    if docid or start.startswith("/docs"):
        return start + docid
    return start.rstrip("/") or "/"


class Names:
    """The names under which clients may reach the service: a page of another name, which resolves to this machine
    (DNS rebinding), must not read its answers.

    Names are checked if the service listens on a loopback address, or has public names. Addresses of IP and
    ``localhost`` are always allowed: no page of another site has them as its own name.
    """

    def __init__(self, config: ServiceConfig):
        self.public = {name.lower().rstrip(".") for name in config.public_names}
        self.own = _name(config.host)
        self.origins = {*config.origins}
        self.checked = "*" not in self.public and bool(self.public or _is_loopback(self.own))

    def check(self, host: str | None, origin: str | None) -> None:
        """Refuse the request if the service may not be called by its ``Host``, or by pages of its ``Origin``.

        Args:
            host: the header; None, as HTTP/1.0 may leave it, is no page's.
            origin: the header, for requests that pages of other origins must not send; else None.
        """
        if not self.checked:
            return
        if host is not None and not self._is_allowed(_name(host)):
            raise RequestError(
                421, f"the service does not answer to the name '{host}': give it to the service as a public name"
            )
        if origin is None or origin in self.origins or "*" in self.origins:
            return
        address = urlsplit(origin)
        name = _name(address.netloc)
        if address.netloc != host and name not in self.public and not _is_loopback(name):
            raise RequestError(
                403, f"pages of {origin} may not call the service: give it to the service as an allowed origin"
            )

    def _is_allowed(self, name: str) -> bool:
        return name == self.own or name in self.public or _is_loopback(name) or _is_ip(name)


def _name(address: str) -> str:
    """The name in ``NAME:PORT``, without the brackets of IPv6."""
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::\d*)?", address)
    name = bracketed[1] if bracketed else address if address.count(":") > 1 else address.partition(":")[0]
    return name.lower().rstrip(".")


def _is_ip(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost") or (_is_ip(name) and ip_address(name).is_loopback)
