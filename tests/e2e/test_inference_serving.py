"""A Knative Service whose pods follow its requests, with real processes: it wakes for one, and sleeps without any."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.plane import RunningPlane, wait_until

pytestmark = [pytest.mark.more, pytest.mark.kubectl, pytest.mark.processes]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


MANIFEST = """
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: hello}
spec:
  template:
    metadata:
      annotations: {autoscaling.knative.dev/window: 6s, autoscaling.knative.dev/max-scale: "1"}
    spec:
      containers:
        - image: hello
          command: [python3, -m, http.server, "PORT"]
          ports: [{containerPort: PORT}]
          readinessProbe: {tcpSocket: {port: PORT}, periodSeconds: 1}
"""


def test_a_service_wakes_for_a_request_and_sleeps_without(start_plane: Callable[..., RunningPlane]) -> None:
    plane = start_plane()
    plane.kubectl("apply", "-f", "-", text=MANIFEST.replace("PORT", str(free_port())))
    url = wait_until("it has an address", lambda: _status(plane, "url").partition("http://127.")[2])
    url = f"http://127.{url}/"
    assert _ask(url) == 200
    wait_until("it sleeps", lambda: _replicas(plane) == "0")
    assert _status(plane, "conditions[1].status") == "True"
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(_ask, [url] * 8)) == {200}
    assert _replicas(plane) == "1"
    said = plane.kubectl("get", "events", "-o", "jsonpath={.items[*].message}")
    assert "replicas: 1 -> 0, no request for" in said
    assert "waiting for a pod" in said


def _ask(url: str) -> int:
    with urllib.request.urlopen(url, timeout=120) as answer:
        status: int = answer.status
        return status


def _status(plane: RunningPlane, path: str) -> str:
    return plane.kubectl("get", "ksvc", "hello", "-o", f"jsonpath={{.status.{path}}}")


def _replicas(plane: RunningPlane) -> str:
    return plane.kubectl("get", "deployment", "hello-deployment", "-o", "jsonpath={.spec.replicas}")
