"""The guide's inference manifests as written, with a real kubectl and a server that answers as Prometheus does."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from support.plane import MANIFESTS, RunningPlane, wait_until

pytestmark = [pytest.mark.more, pytest.mark.kubectl, pytest.mark.processes]

NODES = """
- {name: gpu, count: 4, capacity: {cpu: 32, memory: 128Gi, nvidia.com/gpu: 8}}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm-inference-deployment}
spec:
  replicas: 1
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      schedulerName: volcano
      containers: [{name: llm, image: llm, resources: {requests: {cpu: 1}, limits: {nvidia.com/gpu: 1}}}]
"""


class Prometheus(ThreadingHTTPServer):
    """Answers each instant query with one number."""

    value = "0"
    queries: list[str]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server: Any = self.server
        server.queries.append(parse_qs(urlsplit(self.path).query)["query"][0])
        result = [{"metric": {}, "value": [0, server.value]}]
        body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def prometheus() -> Iterator[Prometheus]:
    server = Prometheus(("127.0.0.1", 0), Handler)
    server.queries = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_guides_inference_scales_with_its_metric(
    start_plane: Callable[..., RunningPlane], prometheus: Prometheus
) -> None:
    plane = start_plane("--no-agent", nodes=NODES)
    plane.apply(DEPLOYMENT)
    text = (MANIFESTS / "16-inference-scaling.yaml").read_text()
    plane.kubectl("apply", "-f", "-", text=text)
    listed = plane.kubectl("get", "scaledobject,ksvc")
    assert "llm-inference-scaler" in listed
    assert "http://ai-inference.default.svc.cluster.local" in wait_until(
        "the server has its address",
        lambda: plane.kubectl("get", "ksvc", "ai-inference", "-o", "jsonpath={.status.url}"),
    )
    wait_until("its name cannot be found on this machine", lambda: "cannot be reached" in _ready(plane))

    prometheus.value = "7000"
    here = f"http://127.0.0.1:{prometheus.server_address[1]}"
    plane.kubectl("apply", "-f", "-", text=text.replace("http://prometheus:9090", here))
    wait_until("seven replicas run", lambda: _replicas(plane) == "7/7")
    assert prometheus.queries[0] == "rate(http_requests_total[1m])"
    assert _ready(plane) == "ScaledObject is defined correctly and is ready"
    wait_until("its autoscaler says the same", lambda: _autoscaler(plane)[-4:-1] == ["2", "20", "7"])
    wait_until(
        "the Knative service is ready",
        lambda: plane.kubectl("get", "ksvc", "ai-inference", "-o", "jsonpath={.status.conditions[1].status}") == "True",
    )
    plane.kubectl("delete", "scaledobject", "llm-inference-scaler")
    wait_until("its autoscaler goes with it", lambda: "keda-hpa" not in plane.kubectl("get", "hpa", "-o", "name"))


def _ready(plane: RunningPlane) -> str:
    path = '{.status.conditions[?(@.type=="Ready")].message}'
    return plane.kubectl("get", "so", "llm-inference-scaler", "-o", f"jsonpath={path}")


def _autoscaler(plane: RunningPlane) -> list[str]:
    return plane.kubectl("get", "hpa", "keda-hpa-llm-inference-scaler", "--no-headers").split()


def _replicas(plane: RunningPlane) -> str:
    return plane.kubectl("get", "deployment", "llm-inference-deployment", "--no-headers").split()[1]
