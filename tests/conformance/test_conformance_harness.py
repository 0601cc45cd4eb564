"""The harness itself: a named file is run and counted, a missing one is an error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "1", "pods": "9"}},
}
QUEUE = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "q"},
    "status": {"state": "Open"},
}
GROUP = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "ns"},
    "spec": {"queue": "q", "minMember": 1},
    "status": {"phase": "Inqueue"},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "ns", "uid": "1", "annotations": {"scheduling.k8s.io/group-name": "g"}},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    "status": {"phase": "Pending"},
}


def case(name: str, binds: dict[str, str], actions: tuple[str, ...] = ("allocate",)) -> dict[str, Any]:
    plugins = [{"name": "gang", "enableJobReady": True}, {"name": "predicates", "enablePredicate": True}]
    return {
        "id": name,
        "name": name,
        "config": {"actions": list(actions), "tiers": [{"plugins": plugins}], "configurations": []},
        "objects": [NODE, QUEUE, GROUP, POD],
        "expect": {"binds": binds, "bindCount": len(binds), "evicted": []},
    }


def run(file: Path) -> tuple[int, str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(HERE / "test_conformance_recorded.py"),
    ]
    done = subprocess.run(
        command,
        env={**os.environ, "UNISONO_CONFORMANCE_CASES": str(file)},
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_a_named_file_is_counted(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    cases = [case("right", {"ns/p": "n1"}), case("wrong", {}), case("later", {}, ("allocate", "sing"))]
    file.write_text("\n".join(json.dumps(entry) for entry in cases), encoding="utf-8")
    code, output = run(file)
    assert code == 1
    assert output.splitlines()[-1] == "1/3"
    assert "recorded cases: 1 passed, 1 failed, 1 not available or known to differ" in output
    assert "not available: action sing" in output
    assert "wrong (wrong): 1 binds instead of 0" in output


def test_a_file_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    code, output = run(tmp_path / "absent.jsonl")
    assert code != 0
    assert "which does not exist" in output
