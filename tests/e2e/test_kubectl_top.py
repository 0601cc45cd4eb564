"""``kubectl top`` on this machine's own pods: what they use is measured."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

import pytest

from support.plane import RunningPlane, wait_until

BUSY = """
apiVersion: v1
kind: Pod
metadata: {name: busy, labels: {app: busy}}
spec:
  containers:
    - name: main
      image: python
      command: [python3, -c, "kept = bytearray(96 << 20)\\nwhile True: pass"]
    - {name: beside, image: python, command: [sleep, "3600"]}
---
apiVersion: v1
kind: Pod
metadata: {name: idle}
spec:
  containers: [{name: main, image: python, command: [sleep, "3600"]}]
"""
SIMULATED = """
- name: sim
  capacity: {cpu: 8, memory: 32Gi}
  taints: [{key: simulated, effect: NoSchedule}]
"""
NOTES = ("unisono.io/usage-cpu=25", "unisono.io/usage-memory=50", "unisono.io/usage-time=2026-01-02T00:00:00Z")

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH")


def table(text: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in text.splitlines()[1:]}


def test_what_pods_and_nodes_use(start_plane: Callable[..., RunningPlane]) -> None:
    plane = start_plane(nodes=SIMULATED)
    plane.apply(BUSY)
    wait_until("the pods run", lambda: len(plane.pods("Running")) == 2)

    def busy() -> bool:
        # Until something is measured kubectl calls that an error.
        used = table(plane.try_kubectl("top", "pods").stdout).get("busy", ["0m", "0Mi"])
        return int(used[0][:-1]) > 20 and 96 <= int(used[1][:-2]) < 160

    wait_until("the busy pod is measured", busy)
    rows = table(plane.kubectl("top", "pods", "-l", "app=busy"))
    assert list(rows) == ["busy"]
    found = plane.kubectl("get", "--raw", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/busy")
    metrics = json.loads(found)
    assert [each["name"] for each in metrics["containers"]] == ["beside", "main"]
    quiet, loud = (int(each["usage"]["cpu"][:-1]) for each in metrics["containers"])
    assert loud > quiet
    # The simulated node has nothing to tell before something is told of it.
    nodes = table(plane.kubectl("top", "nodes"))
    (machine,) = (values for name, values in nodes.items() if not name.startswith("sim"))
    assert int(machine[0][:-1]) >= 20
    assert int(machine[2][:-2]) > 96
    plane.kubectl("annotate", "node", "sim", *NOTES)
    assert table(plane.kubectl("top", "nodes"))["sim"] == ["2000m", "25%", "16384Mi", "50%"]
