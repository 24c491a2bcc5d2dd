"""The page as a local server: a text box on top, and what is typed goes through the model at once.

It listens on the loopback address only, and answers only requests that a page of its own could have made: another
web page in the same browser can neither read from it (the Host header tells) nor use it (the Origin does).
"""

from __future__ import annotations

import json
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from transformer.explain.data import page_data
from transformer.explain.material import Subject
from transformer.explain.page import json_text, page_html

HOST = "127.0.0.1"
LARGEST_REQUEST = 100_000  # bytes
LIVE_SAMPLE_TOKENS = 20  # of each snapshot: typing should not have to wait


class RequestError(ValueError):
    """A request that can't be answered; the message goes to the reader."""


class ExplainServer(ThreadingHTTPServer):
    """Serves the page of one run.

    Args:
        subject: the text that the page opens with.
        port: to listen on; 0 takes any that is free.

    Raises:
        OSError: the port is taken.
    """

    daemon_threads = True

    def __init__(self, subject: Subject, port: int) -> None:
        self.material = subject.material
        self.lock = threading.Lock()  # one text at a time: they share the model
        self.page = page_html(served_data(subject)).encode("utf-8")
        super().__init__((HOST, port), Handler)

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_port}/"

    def explain(self, request: Any) -> dict[str, Any]:
        """Return the page's data for a request of the page's script.

        Raises:
            ValueError: the request is not what it should be, or the text can't be explained.
        """
        text, compare = checked(request)
        with self.lock:
            return served_data(Subject(self.material, text, compare, sample_tokens=LIVE_SAMPLE_TOKENS))


def served_data(subject: Subject) -> dict[str, Any]:
    """Return the page's data, marked as served: the page then shows its text box."""
    return {**page_data(subject), "served": True}


def checked(request: Any) -> tuple[str, tuple[str, str] | None]:
    """Return the text and the two phrases of a request, the latter None if they were left empty.

    Raises:
        RequestError: they are not texts.
    """
    if not isinstance(request, dict) or not isinstance(request.get("text"), str):
        raise RequestError('the request must be {"text": "…", "compare": ["…", "…"]}')
    compare = request.get("compare")
    if compare is None:
        return request["text"], None
    if (
        not isinstance(compare, list)
        or len(compare) != 2
        or not all(isinstance(phrase, str) for phrase in compare)
    ):
        raise RequestError("compare must be two texts")
    return request["text"], (compare[0], compare[1]) if compare[0] and compare[1] else None


class Handler(BaseHTTPRequestHandler):
    """Answers ``GET /`` with the page and ``POST /data`` with the data of a text."""

    server: ExplainServer
    timeout = 30
    server_version = "transformer"
    sys_version = ""

    def do_GET(self) -> None:
        """Send the page."""
        if not self.is_local():
            self.send_problem(HTTPStatus.FORBIDDEN, "this page answers on the loopback address only")
        elif self.path.partition("?")[0] != "/":
            self.send_problem(HTTPStatus.NOT_FOUND, "there is only one page here: /")
        else:
            self.send_content(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)

    def do_POST(self) -> None:
        """Send the data of a text."""
        if not self.is_local():
            self.send_problem(HTTPStatus.FORBIDDEN, "this page answers on the loopback address only")
            return
        if self.path != "/data":
            self.send_problem(HTTPStatus.NOT_FOUND, "texts are sent to /data")
            return
        try:
            data = self.server.explain(self.read_json())
        except ValueError as error:
            self.send_problem(HTTPStatus.BAD_REQUEST, str(error))
            return
        self.send_content(HTTPStatus.OK, "application/json", json_text(data).encode("ascii"))

    def is_local(self) -> bool:
        """Return whether the request was made for this address, and by this page if by any."""
        hosts = [f"{name}:{self.server.server_port}" for name in (HOST, "localhost")]
        origin = self.headers.get("Origin")
        return self.headers.get("Host") in hosts and (origin is None or origin in [f"http://{h}" for h in hosts])

    def read_json(self) -> Any:
        """Return the request's content.

        Raises:
            RequestError: it is no JSON, or too long.
        """
        if self.headers.get_content_type() != "application/json":
            raise RequestError("the request must be of type application/json")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LARGEST_REQUEST:
            self.close_connection = True
            raise RequestError(f"the request must say its length, at most {LARGEST_REQUEST:,} bytes")
        try:
            return json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise RequestError("the request is not JSON") from None

    def send_problem(self, status: HTTPStatus, message: str) -> None:
        """Send what is wrong, for the page to show."""
        self.send_content(status, "application/json", json.dumps({"error": message}).encode("ascii"))

    def send_content(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        """Send an answer that is neither stored nor taken for another type."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *values: Any) -> None:
        """Say nothing: the terminal is the user's."""
