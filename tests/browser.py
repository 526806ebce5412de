"""Headless Chromium, driven over a pipe by the DevTools protocol, without a library."""

import base64
import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FROM_HERE, TO_HERE = 3, 4
"""The file descriptors that Chromium reads commands from and writes answers to."""


def chromium() -> str | None:
    """Return the path of the browser, or None."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page of one browser."""

    def __init__(self, program: str, profile: Path) -> None:
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()

        def plumb() -> None:
            """Move both pipes to the file descriptors that Chromium reads."""
            spare = [os.dup(commands), os.dup(answers)]
            os.dup2(spare[0], FROM_HERE)
            os.dup2(spare[1], TO_HERE)

        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
        self._process = subprocess.Popen(
            [program, *options, "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=plumb,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._numbers = itertools.count(1)
        self._buffer = b""
        self.errors: list[str] = []
        """What went wrong in the page."""
        self.requests: list[str] = []
        """What the page fetched."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session: str | None = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **arguments: Any) -> Any:
        """Return the response to one command."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": arguments}
        session = getattr(self, "_session", None)
        os.write(self._commands, json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        while (answer := self._read()).get("id") != number:
            pass
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def open(self, page: Path, *, width: int = 1180, height: int = 900, dark: bool = False, scale: float = 1.0) -> None:
        """Load a file in a window of the given size."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=page.resolve().as_uri())
        while self._read().get("method") != "Page.loadEventFired":
            pass

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        return str(self.value(f"document.querySelector({json.dumps(selector)}).textContent"))

    def point(self, x: float, y: float, *, press: bool = False) -> None:
        """Move the mouse to window coordinates in pixels and click."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if press else ():
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def point_at(self, element: str, *, x: float | None = None, y: float | None = None, press: bool = False) -> None:
        """Move the mouse to the element that a JavaScript expression returns, and click on it."""
        box = self.value(
            f"(() => {{ const e = {element}; e.scrollIntoView({{block: 'center', inline: 'center'}});"
            " const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()"
        )
        left, top, width, height = box
        self.point(left + (width / 2 if x is None else x), top + (height / 2 if y is None else y), press=press)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=20)
        os.close(self._commands)
        os.close(self._answers)

    def _note(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(event["params"]["exceptionDetails"]))
        if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
            self.errors.append(json.dumps(event["params"]["entry"]))
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(event["params"]["request"]["url"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            some = os.read(self._answers, 1 << 16)
            assert some, "the browser went away"
            self._buffer += some
        message, self._buffer = self._buffer.split(b"\0", 1)
        read: dict[str, Any] = json.loads(message)
        self._note(read)
        return read


@contextmanager
def browser(program: str, profile: Path) -> Iterator[Browser]:
    """Start a browser that closes at the end of the block."""
    one = Browser(program, profile)
    try:
        yield one
    finally:
        one.close()
