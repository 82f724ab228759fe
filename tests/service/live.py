"""A live service: real sockets, in a thread of the tests' process."""

from contextlib import contextmanager
from threading import Thread

import httpx

from rerank_plugin.serve import bind_socket
from rerank_plugin.service.app import create_app
from rerank_plugin.service.config import ServiceConfig
from rerank_plugin.service.connections import server_of


@contextmanager
def serving(config: ServiceConfig, **client):
    """A client of a service with this configuration on a free port; ``client.app`` is the service's application,
    ``client.server`` its server."""
    app = create_app(config)
    server = server_of(app)
    socket = bind_socket("127.0.0.1", 0)
    socket.listen()  # else a connection before the thread runs is refused
    thread = Thread(target=server.run, args=([socket],))
    thread.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{socket.getsockname()[1]}", timeout=60, **client) as http:
            http.app, http.server = app, server
            yield http
    finally:
        server.should_exit = True
        thread.join()
