"""Rivals in a few steps, and a web server on this machine that behaves as badly as it is told to."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from spice.benchmark.rivals import nnm, scan, temi, turtle


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rivals' own schedules, cut to a few steps: for what does not depend on how long their heads are trained."""
    for module in (scan, nnm, temi):
        monkeypatch.setattr(module, "EPOCHS", 2)
        monkeypatch.setattr(module, "LEAST_STEPS", 4)
    monkeypatch.setattr(turtle, "STEPS", 2)


@dataclass
class Host:
    """What the server has, how it behaves, and the requests it got."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    knows_range: bool = True
    tells_length: bool = True
    cuts: list[int] = field(default_factory=list)  # for each coming answer, the bytes after which it is cut
    failures: list[int] = field(default_factory=list)  # status codes of coming answers
    requests: list[str | None] = field(default_factory=list)  # the Range of each request


class _Handler(BaseHTTPRequestHandler):
    host: Host

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.host.requests.append(wanted)
        content = self.host.files.get(self.path.removeprefix("/"))
        if self.host.failures:
            self.send_error(self.host.failures.pop(0))
        elif content is None:
            self.send_error(404)
        else:
            self._send(content, wanted if self.host.knows_range else None)

    def _send(self, content: bytes, wanted: str | None) -> None:
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if self.host.tells_length:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = start + self.host.cuts.pop(0) if self.host.cuts else len(content)
        self.wfile.write(content[start:end])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    found = Host()
    handler = type("Handler", (_Handler,), {"host": found})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        found.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        server.shutdown()
        thread.join()
