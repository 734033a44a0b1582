"""A headless Chromium, spoken to over a pipe in its DevTools protocol: no driver, no port, nothing to install."""

import contextlib
import fcntl
import json
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip


def find_browser() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab.  ``events`` holds everything the browser has said about it."""

    def __init__(self, browser: str, profile: Path) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # The protocol lives on descriptors 3 and 4 of the browser; first out of their way.
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (to_browser, from_browser)]
        os.close(to_browser)
        os.close(from_browser)

        def place() -> None:
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(
            [browser, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=(3, 4), preexec_fn=place, start_new_session=True,
        )  # fmt: skip
        for end in ends:
            os.close(end)
        self.events: list[dict[str, Any]] = []
        self._said: queue.Queue[dict[str, Any]] = queue.Queue()
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()
        self._number, self._session = 0, None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, timeout: float = 60.0, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + timeout
        while True:
            answer = self._next(deadline, method)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def wait_for(self, method: str, timeout: float = 60.0) -> None:
        deadline = time.monotonic() + timeout
        while not any(event["method"] == method for event in self.events):
            self._next(deadline, method)

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")

    def evaluate(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"].get("description", expression))
        return result["result"].get("value")

    def until(self, expression: str, timeout: float = 60.0) -> None:
        """Wait for the page to make an expression true."""
        deadline = time.monotonic() + timeout
        while not self.evaluate(f"Boolean({expression})"):
            broken = any(event["method"] == "Runtime.exceptionThrown" for event in self.events)
            if broken or time.monotonic() > deadline:
                raise TimeoutError(f"never came true: {expression}; complaints: {self.complaints()}")
            time.sleep(0.05)

    def click(self, selector: str) -> None:
        """Click with the mouse, where the element really is."""
        where = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{where}.scrollIntoView({{block: 'center'}})")
        self.point(*self.evaluate(f"(r => [r.x + r.width / 2, r.y + r.height / 2])({where}.getBoundingClientRect())"))
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=self._at[0], y=self._at[1], button="left", clickCount=1)

    def point(self, x: float, y: float) -> None:
        self._at = (x, y)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def complaints(self) -> list[str]:
        """Everything that a developer would see in red."""
        found = []
        for event in self.events:
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(event["params"]["exceptionDetails"])[:600])
            if event["method"] == "Runtime.consoleAPICalled" and event["params"]["type"] in (
                "error",
                "warning",
                "assert",
            ):
                found.append(json.dumps(event["params"]["args"])[:600])
            if event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] in ("error", "warning"):
                found.append(event["params"]["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """Every address the page asked for, but for data it carries itself."""
        urls = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        urls += [e["params"]["url"] for e in self.events if e["method"] == "Network.webSocketCreated"]
        return [url for url in urls if not url.startswith(("data:", "blob:"))]

    def close(self) -> None:
        """End the browser and all its children."""
        with contextlib.suppress(OSError, RuntimeError, TimeoutError, subprocess.TimeoutExpired):
            self._session = None
            self.call("Browser.close", timeout=10.0)
            self._process.wait(timeout=10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=10)
        os.close(self._write)
        self._reader.join(timeout=10)
        os.close(self._read)

    def _next(self, deadline: float, what: str) -> dict[str, Any]:
        try:
            message = self._said.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise TimeoutError(f"the browser did not answer {what}") from None
        if message.get("gone"):
            raise RuntimeError("the browser ended")
        if "method" in message:
            self.events.append(message)
        return message

    def _listen(self) -> None:
        rest = b""
        while chunk := os.read(self._read, 1 << 16):
            *whole, rest = (rest + chunk).split(b"\0")
            for message in whole:
                self._said.put(json.loads(message))
        self._said.put({"gone": True})
