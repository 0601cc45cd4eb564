"""The HTTP calls of the extender plug-in, against a real server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from unisono.scheduler.extender import ExtenderError, call


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status, answer = {
            "/echo": (200, json.dumps({"got": json.loads(body), "type": self.headers["Content-Type"]})),
            "/empty": (200, ""),
            "/list": (200, "[1]"),
            "/broken": (500, "{}"),
        }[self.path]
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def prefix() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_bodies_go_both_ways(prefix: str) -> None:
    assert call(f"{prefix}/echo", {"a": 1}, 5.0) == {"got": {"a": 1}, "type": "application/json"}
    assert call(f"{prefix}/empty", {}, 5.0) == {}


def test_what_goes_wrong(prefix: str) -> None:
    with pytest.raises(ExtenderError, match="no JSON object"):
        call(f"{prefix}/list", {}, 5.0)
    with pytest.raises(OSError, match="500"):
        call(f"{prefix}/broken", {}, 5.0).get("x")
    with pytest.raises(ExtenderError, match="must begin with http"):
        call("file:///etc/hostname", {}, 5.0)
