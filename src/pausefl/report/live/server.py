"""The server of the live page: a few fixed answers to GET, and a stream of news; nobody can write through it."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pausefl.errors import ConfigError
from pausefl.report.chart_base import require_charts
from pausefl.report.live.live_run import LiveRun
from pausefl.report.report_files import bundle, page_file
from pausefl.types import Seconds

_POLL: Seconds = 0.5
_HEARTBEAT: Seconds = 15.0
_SLOWEST_BROWSER: Seconds = 30.0
"""How long a browser may keep a thread waiting before it counts as gone."""
_BROWSERS = 64
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class LiveServer(ThreadingHTTPServer):
    """Serves one run's page at ``url``.

    An address of this machine alone needs no token.  With any other ``host`` the page is open to the network, so a
    random token is part of its address, and nothing is answered without it.  Requests for another host name than those
    of this machine are refused: a web page elsewhere cannot make a browser read this one by giving it a second name.
    """

    daemon_threads = True
    request_queue_size = 32

    def __init__(self, run: LiveRun, host: str, port: int) -> None:
        require_charts()
        self.run, self._slots = run, threading.BoundedSemaphore(_BROWSERS)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.private = host == "localhost" or (_is_ip(host) and ipaddress.ip_address(host).is_loopback)
        self.token = "" if self.private else secrets.token_urlsafe(24)
        self._names = {"localhost", host.lower()} | (set() if self.private else {socket.gethostname().lower()})
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise ConfigError(
                f"{host} port {port} cannot be opened ({error.strerror}); pass another --host or --port (--port 0 "
                "picks a free port)"
            ) from None
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.server_address[1]}/" + (f"?token={self.token}" if self.token else "")

    def allows_host(self, header: str | None) -> bool:
        """Say whether a request was meant for this machine, whatever port it came through."""
        name = (urlsplit(f"//{header}").hostname or "") if header else ""
        if _is_ip(name):
            return not self.private or ipaddress.ip_address(name).is_loopback
        return name in self._names

    def allows_token(self, given: str) -> bool:
        """Say whether this is the token; how long that takes does not tell how much of it is right."""
        return not self.token or hmac.compare_digest(given.encode(), self.token.encode())

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, as long as there are not too many."""
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room for the next."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a browser that goes away in mid-answer is no fault."""


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer
    timeout = _SLOWEST_BROWSER
    server_version, sys_version = "pausefl", ""

    def do_GET(self) -> None:
        if not self.server.allows_host(self.headers.get("Host")):
            return self._answer(403, "text/plain", b"This server does not answer to that host name.\n")
        parts = urlsplit(self.path)
        if not self.server.allows_token(parse_qs(parts.query).get("token", [""])[0]):
            return self._answer(403, "text/plain", b"Open the address with the token that 'pausefl watch' printed.\n")
        if parts.path == "/events":
            return self._stream()
        if parts.path == "/charts":
            return self._answer(200, "application/json", self.server.run.charts())
        if parts.path not in _FILES:
            return self._answer(404, "text/plain", b"There is no such page.\n")
        kind, content = _FILES[parts.path]
        return self._answer(200, kind, content().replace("TOKEN", self.server.token).encode())

    def _answer(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.end_headers()
        version, run = -1, self.server.run
        while not run.over:
            found = run.news(version, _HEARTBEAT)
            if found is None:
                self.wfile.write(b": nothing new\n\n")
            else:
                version, text = found
                self.wfile.write(b"data: " + text + b"\n\n")
            self.wfile.flush()
            time.sleep(_POLL)  # however fast rounds come

    def end_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


_FILES: dict[str, tuple[str, Callable[[], str]]] = {
    "/": ("text/html", lambda: page_file("live/page/live.html")),
    "/live.js": ("text/javascript", lambda: bundle("live/page/live.js")),
    "/live.css": ("text/css", lambda: page_file("page/page.css") + page_file("live/page/live.css")),
}


@contextmanager
def watching(path: Path, host: str = "127.0.0.1", port: int = 0) -> Iterator[LiveServer]:
    """Follow a run and serve its page until the block ends; ``serve_forever`` or another thread answers requests."""
    run = LiveRun(path, time.monotonic)
    server = LiveServer(run, host, port)
    stop = threading.Event()

    def read_on() -> None:
        while not stop.is_set():
            if not run.poll():
                stop.wait(_POLL)

    reader = threading.Thread(target=read_on, daemon=True)
    reader.start()
    try:
        yield server
    finally:
        stop.set()
        run.end()
        reader.join()
        server.server_close()


def _is_ip(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
