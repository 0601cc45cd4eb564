"""The program that hands a RayService's applications over: a Ray Serve whose answers are written down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from unisono.api.core import ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus
from unisono.controllers.training.ray.service import _SCRIPT, told_by

CONFIG = "applications: [{name: hello, import_path: 'hello:app'}, {import_path: 'other:app'}]"
RUNS, DEPLOYS = {"status": "RUNNING", "message": ""}, {"status": "DEPLOYING"}
FAILED = {
    "status": "DEPLOY_FAILED",
    "message": "x" * 3000 + "no module hello",
    "deployments": {"D": {"status": "UNHEALTHY"}},
}


@dataclass
class Serve:
    """What the dashboard answers: one state of the applications after the other, the last again and again."""

    answers: list[dict[str, Any]]
    refused: str = ""
    taken: list[Any] = field(default_factory=list)
    address: str = ""

    def listen(self) -> ThreadingHTTPServer:
        serve = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                serve.taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.say(400 if serve.refused else 200, serve.refused.encode())

            def do_GET(self) -> None:
                state = serve.answers.pop(0) if len(serve.answers) > 1 else serve.answers[0]
                self.say(200, json.dumps({"applications": state}).encode())

            def say(self, code: int, body: bytes) -> None:
                assert self.path == "/api/serve/applications/"
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Quiet."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


def deploy(serve: Serve, folder: Path) -> tuple[int, str, dict[str, Any] | None]:
    """Run the program to its end: its code, its log, and what its last words say of each application."""
    words = folder / "last-words"
    script = _SCRIPT.replace("/dev/termination-log", str(words)).replace("time.sleep(1)", "pass")
    environment = {**os.environ, "RAY_DASHBOARD_ADDRESS": serve.address, "SERVE_CONFIG": CONFIG}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    state = ContainerState(
        terminated=ContainerStateTerminated(exit_code=done.returncode, message=words.read_text()[:4096])
    )
    status = PodStatus(container_statuses=[ContainerStatus(name="ray-serve-deployer", state=state)])
    return done.returncode, done.stdout, told_by(Pod(status=status), CONFIG)


@pytest.fixture
def serving(request: pytest.FixtureRequest) -> Iterator[Serve]:
    serve = Serve(**request.param)
    server = serve.listen()
    yield serve
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("serving", "code", "told"),
    [
        ({"answers": [{}, {"hello": DEPLOYS}, {"hello": RUNS, "default": RUNS}]}, 0, {"hello": RUNS, "default": RUNS}),
        ({"answers": [{"hello": FAILED, "default": RUNS}]}, 1, {"hello": FAILED, "default": RUNS}),
        (
            {"answers": [{}], "refused": "import_path is wrong"},
            1,
            {name: {"status": "DEPLOY_FAILED", "message": "import_path is wrong"} for name in ("hello", "default")},
        ),
    ],
    indirect=["serving"],
    ids=["they run", "one fails", "refused"],
)
def test_the_deployer_hands_over_and_tells_how_it_went(serving, code, told, tmp_path):
    ended, _, states = deploy(serving, tmp_path)
    assert serving.taken == [
        {"applications": [{"name": "hello", "import_path": "hello:app"}, {"import_path": "other:app"}]}
    ]
    assert ended == code
    assert states is not None
    assert {name: state.status for name, state in states.items()} == {n: s["status"] for n, s in told.items()}
    for name, state in told.items():
        assert (states[name].message or "") == state["message"][-500:]
