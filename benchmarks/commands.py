"""``python -m benchmarks.commands [--write]``: what it costs to start each command, beside ``python -c pass``.

A control plane with one simulated node runs meanwhile; its own work is not counted: times are seconds of CPU of the
command's process, the best of several runs. ``kubectl`` stands beside them where it is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import report
from unisono.sdk.clients.client import Portal
from unisono.sdk.clients.endpoint import PrivatePlane

GOAL = 0.25
COMMANDS = (
    "version", "get jobs", "get nodes", "queue list", "job list", "status", "squeue", "explain queue/default",
    "logs absent", "describe queue default", "delete job absent --ignore-not-found", "run --dry-run -- sh",
)  # fmt: skip
NODES = ({"name": "sim", "count": 1, "capacity": {"cpu": 4, "memory": "8Gi"}},)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.commands", description="Measures what starting a command costs.")
    parser.add_argument("--runs", type=int, default=7, help="runs of each command, of which the best counts")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    parser.add_argument("--write", action="store_true", help="put the results into docs/performance.md")
    options = parser.parse_args()
    found = measure(options.runs)
    if options.write:
        page = report.put(report.PAGE.read_text(), "results of commands", "\n".join(lines(found)))
        report.PAGE.write_text(page)
    if options.output == "json":
        print(json.dumps({"goal": GOAL, "seconds": found}, indent=2))
    else:
        print("\n".join(lines(found)))
    return 0


def measure(runs: int) -> dict[str, float]:
    """CPU seconds by command."""
    portal = Portal()
    plane = portal.run(PrivatePlane.start(NODES, local_node=False))
    try:
        environment = {**os.environ, "UNISONO_DATA_DIR": str(plane.data.root), "KUBECONFIG": str(plane.data.kubeconfig)}
        found = {"python -c pass": best([sys.executable, "-c", "pass"], environment, runs)}
        if kubectl := shutil.which("kubectl"):
            found["kubectl get nodes"] = best([kubectl, "get", "nodes"], environment, runs)
        for command in COMMANDS:
            words = [sys.executable, "-m", "unisono", *command.split()]
            found[f"unisono {command}"] = best(words, environment, runs)
        return found
    finally:
        portal.run(plane.stop())
        portal.close()


def best(words: Sequence[str], environment: Mapping[str, str], runs: int) -> float:
    """CPU seconds of the cheapest of several runs."""
    with tempfile.TemporaryDirectory(prefix="unisono-bench-") as folder:
        return min(_once(words, environment, Path(folder)) for _ in range(runs))


def _once(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, env=dict(environment), cwd=folder, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def lines(found: Mapping[str, float]) -> list[str]:
    """A table in Markdown."""
    head = ["| command | CPU | beyond Python itself |", "|---|---|---|"]
    base = found["python -c pass"]
    return head + [
        f"| `{name}` | {seconds * 1000:.0f} ms | {max(0, seconds - base) * 1000:.0f} ms |"
        for name, seconds in found.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
