"""``rerank-plugin serve``: serves search and re-ranking over HTTP and MCP, with a page."""

from __future__ import annotations

import logging
import signal
from contextlib import suppress
from pathlib import Path
from socket import AF_INET, AF_INET6, IPPROTO_TCP, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET, socket
from threading import Thread

from rerank_plugin import options as commandline
from rerank_plugin.base.errors import InputError
from rerank_plugin.models.base import RerankerOptions
from rerank_plugin.service.settings import ServiceConfig

log = logging.getLogger(__name__)
SAMPLE = Path("indexes/sample")
RERANKERS = ["delta", "ktrel"]
EXAMPLES = """examples:
  rerank-plugin serve
  rerank-plugin serve --index indexes/sample --reranker delta --port 8080
  rerank-plugin serve --mcp
  rerank-plugin serve --index pubmed=indexes/p --reranker mine=checkpoints/d --reranker ktrel"""


def arguments():
    parser = commandline.parser(
        "serve",
        "Serve indexes: a page to search and compare with, a REST API that clients of Pyserini, Cohere and Text\n"
        "Embeddings Inference speak, and tools for language models (MCP). It ends with Ctrl-C.",
        EXAMPLES,
    )
    add = parser.add_argument
    sample = f"index folder, or NAME=FOLDER; may be repeated (default: {SAMPLE}, the bundled sample, built if missing)"
    add("--index", action="append", default=[], metavar="INDEX", help=sample)
    known = (
        "reranker, as search takes it, or NAME=RERANKER; may be repeated: the first answers requests that name none "
        f"(default: {' '.join(RERANKERS)})"
    )
    add("--reranker", action="append", default=[], metavar="RERANKER", help=known)
    add("--host", default="127.0.0.1", help="address to listen at; 0.0.0.0 for all of this machine's")
    add("--port", type=int, default=8080, help="port to listen at; 0 for a free one")
    add("--mcp", action="store_true", help="speak the Model Context Protocol on stdin and stdout instead of HTTP")
    access = parser.add_argument_group("access")
    token = "file with the token that clients must send as 'Authorization: Bearer' or X-API-Key"
    access.add_argument("--token-file", type=Path, metavar="FILE", help=token)
    origin = "allow pages of this origin to call the service (CORS); may be repeated"
    access.add_argument("--allow-origin", action="append", default=[], metavar="ORIGIN", help=origin)
    clicks = "file to append shown and clicked documents to (docs/learning-from-use.md; default: no log)"
    access.add_argument("--click-log", default="", metavar="FILE", help=clicks)
    running = parser.add_argument_group("running and limits")
    commandline.add_settings(running, ServiceConfig)
    commandline.add_settings(running, RerankerOptions)
    return parser


def main(argv: list[str] | None = None) -> None:
    options = commandline.parse(arguments(), argv)
    if options.mcp and options.click_log:
        raise InputError("--click-log is for clicks over HTTP, which --mcp does not serve: leave one of them out")
    config = _config(options)
    import uvicorn

    from rerank_plugin.service.administration import reload
    from rerank_plugin.service.app import create_app
    from rerank_plugin.service.mcp import mcp_server
    from rerank_plugin.service.state import Service

    if not options.index:
        _build_sample()
    if options.mcp:
        service = Service(config)
        mcp_server(service).run("stdio")
        service.close()
        return
    with bound(options.host, options.port) as listening:
        app = create_app(config)
        signal.signal(signal.SIGHUP, lambda *_: Thread(target=reload, args=(app.state.service,)).start())
        listening.listen()  # whoever reads the address may ask
        print(f"http://{options.host}:{listening.getsockname()[1]}", flush=True)
        with suppress(KeyboardInterrupt):  # uvicorn raises the signal again after it has finished what was running
            uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, server_header=False)).run([listening])


def bound(host: str, port: int) -> socket:
    """A socket at an address, on which nobody listens yet."""
    made = socket(AF_INET6 if ":" in host else AF_INET, SOCK_STREAM, IPPROTO_TCP)  # else answers wait 40 ms (Nagle)
    made.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        raise InputError(f"cannot listen at {host}, port {port} ({error}): choose another --port or --host") from None
    return made


def _config(options) -> ServiceConfig:
    indexes = _named(options.index) or {SAMPLE.name: str(SAMPLE)}
    rerankers = _named(options.reranker or RERANKERS)
    token = _token(options.token_file) if options.token_file else ""
    origins = tuple(options.allow_origin)
    return commandline.configured(
        ServiceConfig, options, indexes=indexes, rerankers=rerankers, token=token, origins=origins, host=options.host,
        click_log=options.click_log, running=commandline.configured(RerankerOptions, options),
    )  # fmt: skip


def _token(path: Path) -> str:
    try:
        found = path.read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise InputError(f"--token-file {path} cannot be read: {error}") from None
    if not found:
        raise InputError(f"--token-file {path} is empty: write a token into it")
    return found


def _named(given: list[str]) -> dict[str, str]:
    """What was given by name; without a name, that of its folder, or as it is."""
    found: dict[str, str] = {}
    for one in given:
        name, equals, rest = one.partition("=")
        if not equals:
            name, rest = Path(one.rpartition(":")[2]).name, one
        if not name or name in found:
            raise InputError(f"'{one}' would be called '{name}', as another: name it as NAME={rest}")
        found[name] = rest
    return found


def _build_sample() -> None:
    """Index the bundled sample on the first start."""
    if not SAMPLE.is_dir():
        from rerank_plugin.indexes.corpus_index import build_index
        from rerank_plugin.retrieval.dense import ENCODER
        from rerank_plugin.retrieval.encoding import IndexEncoder

        log.warning("building the index of the bundled sample in %s", SAMPLE)
        encoder = IndexEncoder(build_index("sample", SAMPLE).forward, ENCODER)
        for one in (encoder, encoder.adapted()):
            one.encode()


if __name__ == "__main__":
    commandline.run(main)
