"""``python -m benchmarks.fleet_dispatch``: how many jobs a second a hub sends to its members, from end to end.

The hub and the members are control planes of their own processes, with simulated nodes. Jobs are written to the hub
over HTTPS; a job counts when the hub's own job says that it runs. ``--slow`` stops the process of one more member once
it takes work, which no other member may notice.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from unisono.api.batch import Job
from unisono.api.kinds import JOBS
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import load
from unisono.standalone.paths import DataDir

_WRITERS = 32


def unisono(*words: str) -> None:
    """Run the command line."""
    subprocess.run([sys.executable, "-m", "unisono", *words], check=True, stdout=subprocess.DEVNULL)


def job(number: int) -> Job:
    """A gang of two pods with a GPU each, that runs for an hour."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}}
    template = {
        "metadata": {"annotations": {"unisono.io/run-seconds": "3600"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    value = {
        "metadata": {"name": f"j{number:05}", "namespace": "default"},
        "spec": {
            "queue": "default",
            "minAvailable": 2,
            "schedulerName": "volcano",
            "tasks": [{"name": "w", "replicas": 2, "template": template}],
        },
    }
    return msgspec.convert(value, Job)


async def measure(hub: Path, jobs: int) -> dict[str, Any]:
    """Write the jobs, and wait until all of them run."""
    client = HttpClient(load(DataDir.at(hub).kubeconfig))
    started = time.monotonic()
    numbers = iter(range(jobs))

    async def write() -> None:
        for number in numbers:
            await client.create(JOBS, job(number))

    await asyncio.gather(*(write() for _ in range(_WRITERS)))
    written = time.monotonic() - started
    first = 0.0
    while True:
        phases = [each.status.state.phase for each in (await client.list(JOBS, "default")).items]
        running = phases.count("Running")
        first = first or (time.monotonic() - started if running else 0.0)
        if running == jobs:
            break
        await asyncio.sleep(0.25)
    seconds = time.monotonic() - started
    await client.close()
    return {"written": written, "first": first, "seconds": seconds}


def main() -> None:
    """Start all, measure, print, stop all."""
    parser = argparse.ArgumentParser(prog="benchmarks.fleet_dispatch", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000, help="jobs  [default: 1000]")
    parser.add_argument("--members", type=int, default=4, help="members  [default: 4]")
    parser.add_argument("--slow", action="store_true", help="one more member, whose process is stopped")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="unisono-fleet-") as folder:
        hub = Path(folder) / "hub"
        nodes = Path(folder) / "nodes.yaml"
        count = -(-given.jobs * 2 // given.members // 8) + 1
        nodes.write_text(f"- {{name: node, count: {count}, capacity: {{cpu: 32, memory: 128Gi, nvidia.com/gpu: 8}}}}\n")
        names = [f"m{number}" for number in range(given.members + given.slow)]
        try:
            unisono("up", "--fleet", "--detach", "--data-dir", str(hub))
            for name in names:
                unisono("fleet", "embed", name, "--nodes", str(nodes), "--data-dir", str(hub))
            if given.slow:
                stop(hub, names[-1], signal.SIGSTOP)
                time.sleep(40)  # it is lost after 30 seconds; before, jobs are sent to it as to any other
            found = asyncio.run(measure(hub, given.jobs))
        finally:
            if given.slow:
                stop(hub, names[-1], signal.SIGCONT)
            for home in (hub, *(hub / "members" / name for name in names)):
                words = ["down", "--data-dir", str(home)]
                subprocess.run([sys.executable, "-m", "unisono", *words], check=False, capture_output=True)
    rate = given.jobs / found["seconds"]
    print(f"{given.jobs} jobs over {given.members} members{', one more is stopped' if given.slow else ''}:")
    print(f"written in {found['written']:.1f} s, the first ran after {found['first']:.1f} s, all after")
    print(f"{found['seconds']:.1f} s: {rate:.0f} jobs/s")


def stop(hub: Path, name: str, number: int) -> None:
    """Send a signal to the processes of a member."""
    pid = DataDir.at(hub / "members" / name).running_pid()
    if pid is not None:
        os.killpg(os.getpgid(pid), number)


if __name__ == "__main__":
    main()
