"""``rerank-plugin serve``: serves search and re-ranking over HTTP and MCP, with a page."""

from __future__ import annotations

import logging
import signal
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from pathlib import Path
from socket import AF_INET, AF_INET6, IPPROTO_TCP, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET, socket

from rerank_plugin import options as commandline
from rerank_plugin.base.errors import InputError
from rerank_plugin.models.base import RerankerOptions
from rerank_plugin.retrieval.dense import DenseConfig
from rerank_plugin.retrieval.faiss import FaissConfig
from rerank_plugin.retrieval.hybrid import HybridConfig
from rerank_plugin.service.config import ServiceConfig

log = logging.getLogger(__name__)
OF_VECTORS = (DenseConfig, FaissConfig, HybridConfig)
LONGEST_TOKEN = 4096  # characters
SAMPLE = Path("indexes/sample")
RERANKERS = ["delta", "ktrel"]
EXAMPLES = """examples:
  rerank-plugin serve
  rerank-plugin serve --index indexes/sample --reranker delta --port 8080
  rerank-plugin serve --mcp
  rerank-plugin serve --index pubmed=indexes/p --reranker mine=checkpoints/d --reranker ktrel"""


def arguments() -> ArgumentParser:
    parser = commandline.parser(
        "serve",
        "Serve indexes: a page to search and compare rankings, a REST API for clients of Pyserini, Cohere and Text\n"
        "Embeddings Inference, and tools for language models (MCP). Ctrl-C stops it.",
        EXAMPLES,
    )
    add = parser.add_argument
    indexes = f"index folder, or NAME=FOLDER; repeatable (default: {SAMPLE}, the bundled sample, built if missing)"
    add("--index", action="append", default=[], metavar="INDEX", help=indexes)
    rerankers = (
        "reranker, as search takes it, or NAME=RERANKER; repeatable; the first is used by requests that name none "
        f"(default: {' '.join(RERANKERS)})"
    )
    add("--reranker", action="append", default=[], metavar="RERANKER", help=rerankers)
    add("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 for all interfaces")
    add("--port", type=int, default=8080, help="port to listen on; 0 for any free port")
    add("--mcp", action="store_true", help="speak the Model Context Protocol on stdin and stdout instead of HTTP")
    access = parser.add_argument_group("access")
    token = "file with the token that clients send as 'Authorization: Bearer' or X-API-Key (default: no token needed)"
    access.add_argument("--token-file", type=Path, metavar="FILE", help=token)
    origin = "origin whose pages may call the service (CORS); repeatable (default: none)"
    access.add_argument("--allow-origin", action="append", default=[], metavar="ORIGIN", help=origin)
    name = (
        "name by which clients may call the service besides localhost, as behind a proxy, or * for any; repeatable; "
        "checked if the host is a loopback address or a name is given (default: none)"
    )
    access.add_argument("--public-name", action="append", default=[], metavar="NAME", help=name)
    clicks = "file to log shown and clicked documents in (docs/learning-from-use.md; default: no log)"
    access.add_argument("--click-log", default="", metavar="FILE", help=clicks)
    running = parser.add_argument_group("running and limits")
    commandline.add_places(running, "Ray cluster that searches the indexes, which are of shards")
    commandline.add_settings(running, ServiceConfig)
    commandline.add_settings(running, RerankerOptions)
    vectors = parser.add_argument_group("searches of vectors (dense:CHECKPOINT, faiss:FOLDER, hybrid)")
    for of_stage in OF_VECTORS:
        commandline.add_settings(vectors, of_stage, given_only=True)
    return parser


def main(argv: list[str] | None = None) -> None:
    options = commandline.parse(arguments(), argv)
    options.host = options.host.removeprefix("[").removesuffix("]")  # of IPv6, as addresses have it
    if options.mcp and options.click_log:
        raise InputError("--click-log logs clicks sent over HTTP, but --mcp serves no HTTP: leave one of them out")
    config = _config(options)
    from rerank_plugin.service.app import create_app
    from rerank_plugin.service.connections import raise_open_files, server_of
    from rerank_plugin.service.mcp import mcp_server
    from rerank_plugin.service.state import Service

    if not options.index:
        _build_sample()
    if options.mcp:
        service = Service(config)
        mcp_server(service).run("stdio")
        service.close()
        return
    raise_open_files()
    with bind_socket(options.host, options.port) as listener:
        app = create_app(config)
        signal.signal(signal.SIGHUP, lambda *_: app.state.service.reloads.ask())
        listener.listen()  # before the address is printed: clients may connect from then on
        name = f"[{options.host}]" if ":" in options.host else options.host
        print(f"http://{name}:{listener.getsockname()[1]}", flush=True)
        with suppress(KeyboardInterrupt):  # uvicorn raises the signal again after the running requests
            server_of(app).run([listener])


def bind_socket(host: str, port: int) -> socket:
    """A socket bound to an address, not listening yet; an `InputError` if the address cannot be used."""
    # With IPPROTO_TCP asyncio turns Nagle's algorithm off, which delays answers by 40 ms.
    bound = socket(AF_INET6 if ":" in host else AF_INET, SOCK_STREAM, IPPROTO_TCP)
    bound.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        bound.close()
        raise InputError(f"cannot listen on {host}, port {port} ({error}): choose another --port or --host") from None
    return bound


def _config(options: Namespace) -> ServiceConfig:
    indexes = _by_name(options.index) or {SAMPLE.name: str(SAMPLE)}
    if (location := commandline.location_of(options)) is not None:
        indexes = {name: location.url(folder) for name, folder in indexes.items()}
    rerankers = _by_name(options.reranker or RERANKERS)
    token = _read_token(options.token_file) if options.token_file else ""
    origins = tuple(options.allow_origin)
    names = tuple(options.public_name)
    config: ServiceConfig = commandline.configured(
        ServiceConfig, options, indexes=indexes, rerankers=rerankers, token=token, origins=origins, public_names=names,
        host=options.host,
        click_log=options.click_log, running=commandline.configured(RerankerOptions, options),
        stage_settings=commandline.given_settings(options, *OF_VECTORS),
    )  # fmt: skip
    return config


def _read_token(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise InputError(f"--token-file {path} is not a regular file: write the token into one")
        with open(path, encoding="utf-8") as file:
            token = file.read(LONGEST_TOKEN + 1).strip()
    except (OSError, ValueError) as error:
        raise InputError(f"--token-file {path} cannot be read: {error}") from None
    if len(token) > LONGEST_TOKEN or not token.isprintable():
        raise InputError(f"--token-file {path} holds more than a token: write one line of text into it")
    if not token:
        raise InputError(f"--token-file {path} is empty: write a token into it")
    return token


def _by_name(values: list[str]) -> dict[str, str]:
    """Maps names to folders or rerankers, from ``NAME=VALUE`` or ``VALUE``, which is named after its last part."""
    named: dict[str, str] = {}
    for argument in values:
        name, equals, value = argument.partition("=")
        if not equals:
            name, value = Path(argument.rpartition(":")[2]).name, argument
        if not name or name in named:
            raise InputError(f"'{argument}': the name '{name}' is empty or already used: write NAME={value}")
        named[name] = value
    return named


def _build_sample() -> None:
    """Build and encode the index of the bundled sample if it does not exist."""
    if not SAMPLE.is_dir():
        from rerank_plugin.encoding.index_encoder import IndexEncoder
        from rerank_plugin.indexes.corpus_index import build_index
        from rerank_plugin.indexes.vector_store import ENCODER

        log.warning("building the index of the bundled sample in %s", SAMPLE)
        encoder = IndexEncoder(build_index("sample", SAMPLE).forward, ENCODER)
        for text_encoder in (encoder, encoder.adapted()):
            text_encoder.encode()


if __name__ == "__main__":
    commandline.run(main)
