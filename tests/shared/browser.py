"""A real headless Chromium, driven through its DevTools pipe: no driver program and no package needed."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COMMAND = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_PATIENCE = 120  # seconds without a word from the browser, on a machine that is busy
_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars --remote-debugging-pipe "
    # A tab that nobody looks at draws as quickly as one that is looked at.
    "--disable-renderer-backgrounding --disable-background-timer-throttling --disable-backgrounding-occluded-windows"
)


class Page:
    """One tab: every console message, error and request is kept."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, back
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self._loads = 0
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """One DevTools command and its result; events that come first are noted."""
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False, density: float = 1) -> None:
        """Load a file and wait until it has run."""
        self.visit(path.resolve().as_uri(), width=width, height=height, dark=dark, density=density)

    def visit(
        self, address: str, *, width: int = 1280, height: int = 900, dark: bool = False, density: float = 1
    ) -> None:
        """Load an address and wait until it has run. `density`: pixels of the screen per pixel of the page."""
        self._navigate("about:blank")  # what the page before this one still has to say is not about this one
        self.errors.clear()
        self.requests.clear()
        self.resize(width=width, height=height, density=density)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}  # no test waits for something to glide into place
        self.call("Emulation.setEmulatedMedia", features=[scheme, still])
        self._navigate(address)

    def resize(self, *, width: int, height: int, density: float = 1) -> None:
        screen = {"width": width, "height": height, "deviceScaleFactor": density, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **screen)

    def _navigate(self, address: str) -> None:
        loads = self._loads
        self.call("Page.navigate", url=address)
        # The event, not the document's state: the old page may still be there, and is complete as well.
        while self._loads == loads:
            self._note(self._receive())

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str, *, seconds: float = 60) -> None:
        """Until the condition holds."""
        end = time.monotonic() + seconds
        while not self.run(condition):
            assert time.monotonic() < end, f"never came true: {condition}"
            time.sleep(0.02)

    def mouse(self, kind: str, x: float, y: float) -> None:
        pressed = {"button": "left", "clickCount": 1} if kind != "mouseMoved" else {}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pressed)

    def click(self, selector: str) -> None:
        """Scroll an element into view and press the mouse in its middle."""
        find = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{find}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        # The mouse meets what was last painted: two frames on, that is the page as it is now.
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
        x, y = self.run(
            f"(() => {{ const b = {find}.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})()"
        )
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x, y)

    def key(self, name: str) -> None:
        code = {"Enter": 13}.get(name, 0)
        typed = {"text": "\r"} if name == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, windowsVirtualKeyCode=code, **typed)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code)

    def type(self, letters: str) -> None:
        self.call("Input.insertText", text=letters)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert select.select([self._back], [], [], _PATIENCE)[0], "chromium says nothing any more"
            part = os.read(self._back, 1 << 16)
            assert part, "chromium has ended"
            self._buffer += part
        line, self._buffer = self._buffer.split(b"\0", 1)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Page.loadEventFired":
                self._loads += 1
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"][:200])
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(params["exceptionDetails"])[:500])
            case "Log.entryAdded":
                self.errors.append(params["entry"]["text"])
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.errors.append(json.dumps(params["args"])[:500])


@contextmanager
def chromium() -> Iterator[Page]:
    """A browser with one empty page, ended at the end."""
    assert COMMAND is not None
    ours_in, theirs_out = os.pipe()
    theirs_in, ours_out = os.pipe()

    def connect() -> None:
        # The browser reads commands from 3 and writes to 4; by way of high numbers, since ours may be 3 or 4.
        os.dup2(theirs_in, 103)
        os.dup2(theirs_out, 104)
        os.dup2(103, 3)
        os.dup2(104, 4)

    with tempfile.TemporaryDirectory(prefix="spice-browser-", ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [COMMAND, *_FLAGS.split(), f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=connect,  # noqa: PLW1509 - no threads yet
            pass_fds=(3, 4),
        )
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield Page(ours_out, ours_in)
        finally:
            process.kill()  # it has nothing to keep
            process.wait()
            os.close(ours_in)
            os.close(ours_out)
