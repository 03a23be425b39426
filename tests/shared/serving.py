"""The explorer at work, in a thread or as the real command `spice open`, and requests to it."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from spice.errors import UserError
from spice.progress import Progress
from spice.web.app import make_app
from spice.web.server import Server
from spice.web.session import Session
from spice.web.tools import ExportBody, Proposal, Tools


def _nothing_near(content: bytes, count: int) -> list[tuple[int, float]]:
    raise UserError(f"no encoder here: {len(content)} bytes, {count} images")


def _nothing_learned(progress: Progress) -> Proposal:
    raise UserError(f"no training here: {progress}")


def _nothing_written(wanted: ExportBody, destination: Path) -> str:
    raise UserError(f"no export here: {wanted}, {destination}")


def _not_refined(progress: Progress) -> str:
    raise UserError(f"no training here: {progress}")


def _not_regrouped(clusters: int, cut: bool, progress: Progress) -> None:
    raise UserError(f"no training of {clusters} groups here: {cut}, {progress}")


NO_TOOLS = Tools(_nothing_near, _nothing_learned, _not_regrouped, _not_refined, _nothing_written)


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Explorer:
    """A running explorer."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.host = re.sub(r"^http://|/.*", "", address)
        self.cookie: str | None = None

    def request(
        self, path: str, content: object = None, *, headers: Mapping[str, str | None] = {}, method: str | None = None
    ) -> Answer:
        """One request with the cookie, if there is one. `headers` override; None leaves one out."""
        body = None if content is None else content if isinstance(content, bytes) else json.dumps(content).encode()
        given: dict[str, str | None] = {"Host": self.host, "Cookie": self.cookie}
        if body is not None:
            given |= {"Content-Type": "application/json", "Origin": f"http://{self.host}"}
        sent = {name: value for name, value in (given | dict(headers)).items() if value is not None}
        connection = http.client.HTTPConnection("127.0.0.1", int(self.host.rpartition(":")[2]), timeout=60)
        try:
            connection.request(method or ("GET" if body is None else "POST"), path, body, sent)
            answer = connection.getresponse()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def enter(self) -> None:
        """Turn the token into the cookie."""
        answer = self.request("/" + self.address.rpartition("/")[2])
        assert answer.status == 303
        self.cookie = answer.headers["set-cookie"].split(";")[0]

    def state(self) -> Any:
        return self.request("/api/state").json

    def edit(self, operation: object) -> Answer:
        return self.request("/api/edit", {"version": self.state()["version"], "operation": operation})


class Command(Explorer):
    """One in a process of its own."""

    def __init__(self, address: str, process: subprocess.Popen[str]) -> None:
        super().__init__(address)
        self.process = process

    def stop(self) -> str:
        """As Ctrl-C does; what the command printed last."""
        self.process.send_signal(signal.SIGINT)
        rest, _ = self.process.communicate(timeout=30)
        return rest


@contextmanager
def served(run: Path, tools: Tools = NO_TOOLS) -> Iterator[Explorer]:
    """The explorer in a thread of this process, which starts at once."""
    session = Session(run)
    server = Server(make_app(session, tools))
    ready = threading.Event()
    thread = threading.Thread(target=server.serve_until_stopped, args=(ready.set,))
    thread.start()
    assert ready.wait(30)
    try:
        yield Explorer(server.address)
    finally:
        server.stop()
        thread.join()
        session.close()


@contextmanager
def opened(run: Path, *options: str) -> Iterator[Command]:
    """`spice open RUN` in a process of its own, ended at the end."""
    command = [sys.executable, "-m", "spice", "open", str(run), "--no-browser", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None
    try:
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        yield Command(found[0], process)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
