"""A server on 127.0.0.1 for tests of web_fetch: answers by path, remembers what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Answer:
    body: bytes = b""
    content_type: str = "text/plain"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    hang: bool = False


@dataclass
class Server:
    port: int
    seen: list[tuple[str, dict[str, str]]]

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"


@contextmanager
def serving(answers: Mapping[str, Answer]) -> Iterator[Server]:
    seen: list[tuple[str, dict[str, str]]] = []
    done = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
            answer = answers.get(self.path, Answer(b"nothing here", status=404))
            if answer.hang:
                done.wait()
                return
            self.send_response(answer.status)
            if answer.content_type:
                self.send_header("content-type", answer.content_type)
            self.send_header("content-length", str(len(answer.body)))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):
                self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield Server(server.server_address[1], seen)
    finally:
        done.set()
        server.shutdown()
        server.server_close()
