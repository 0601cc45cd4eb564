"""``python -m benchmarks.fleet_dispatch``: how many jobs a second a hub sends to its members, from end to end.

The hub and the members are control planes of their own processes, with simulated nodes. Jobs are written to the hub
over HTTPS; a job counts when the hub's own job says that it runs. ``--slow`` stops the process of one more member once
it takes work, and ``--delay`` makes every answer of one more member late; no other member may notice either.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from unisono.api.groups.batch import Job
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
    first = await _until_all_run(client, jobs) - started
    seconds = time.monotonic() - started
    await client.close()
    return {"written": written, "first": first, "seconds": seconds}


async def _until_all_run(client: HttpClient, jobs: int) -> float:
    """Follow the jobs, which costs the hub less than asking for all of them again and again; when the first ran."""
    listed = await client.list(JOBS, "default")
    running = {each.metadata.name for each in listed.items if each.status.state.phase == "Running"}
    first = time.monotonic() if running else 0.0
    if len(running) < jobs:
        async for event in client.watch(JOBS, "default", resource_version=listed.resource_version):
            if event.object.status.state.phase == "Running":
                first = first or time.monotonic()
                running.add(event.object.metadata.name)
            if len(running) == jobs:
                break
    return first


def cpu_seconds(home: Path) -> float:
    """CPU that the processes of a control plane have used so far."""
    pid = DataDir.at(home).running_pid()
    if pid is None:
        return 0.0
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            fields = path.read_text().rpartition(") ")[2].split()
            if int(fields[2]) == os.getpgid(pid):
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class LateAnswers:
    """A way to a member on which all that it says arrives later, in a thread of its own."""

    def __init__(self, port: int, seconds: float) -> None:
        self._port, self._seconds = port, seconds
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        made = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._accept, "127.0.0.1", 0), self._loop)
        self.port: int = made.result(10).sockets[0].getsockname()[1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        with contextlib.suppress(OSError):
            await asyncio.gather(_carry(reader, back, 0.0), _carry(there, writer, self._seconds))


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """What comes, so much later; what comes meanwhile waits beside it and not behind it."""
    queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def write() -> None:
        data = b"-"
        while data:
            due, data = await queue.get()
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            writer.write(data)
            await writer.drain()
        writer.close()

    async def read() -> None:
        data = b"-"
        while data:
            data = await reader.read(65536)
            queue.put_nowait((time.monotonic() + seconds, data))

    await asyncio.gather(read(), write())


def join_late(hub: Path, name: str, seconds: float) -> None:
    """Let the hub reach a member by a way on which answers are late."""
    found = DataDir.at(hub / "members" / name).kubeconfig
    text = found.read_text()
    address = re.search(r"server: https://[^:]+:(\d+)", text)
    if address is None:
        raise SystemExit(f"{found} names no server")
    late = LateAnswers(int(address[1]), seconds)
    changed = hub / f"{name}-late.yaml"
    changed.write_text(text.replace(address[0], f"server: https://127.0.0.1:{late.port}"))
    unisono("fleet", "join", name, "--kubeconfig", str(changed), "--data-dir", str(hub))


def main() -> None:
    """Start all, measure, print, stop all."""
    parser = argparse.ArgumentParser(prog="benchmarks.fleet_dispatch", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000, help="jobs  [default: 1000]")
    parser.add_argument("--members", type=int, default=4, help="members  [default: 4]")
    parser.add_argument("--slow", action="store_true", help="one more member, whose process is stopped")
    parser.add_argument(
        "--delay", type=float, default=0.0, help="one more member, whose answers come so many seconds late"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="unisono-fleet-") as folder:
        hub = Path(folder) / "hub"
        nodes = Path(folder) / "nodes.yaml"
        count = -(-given.jobs * 2 // given.members // 8) + 1
        nodes.write_text(f"- {{name: node, count: {count}, capacity: {{cpu: 32, memory: 128Gi, nvidia.com/gpu: 8}}}}\n")
        extra = bool(given.slow or given.delay)
        names = [f"m{number}" for number in range(given.members + extra)]
        try:
            unisono("up", "--fleet", "--detach", "--data-dir", str(hub))
            for name in names:
                unisono("fleet", "embed", name, "--nodes", str(nodes), "--data-dir", str(hub))
            if given.slow:
                stop(hub, names[-1], signal.SIGSTOP)
                time.sleep(40)  # it is lost after 30 seconds; before, jobs are sent to it as to any other
            if given.delay:
                join_late(hub, names[-1], given.delay)
                time.sleep(20 + 10 * given.delay)
            homes = {"hub": hub, **{name: hub / "members" / name for name in names}}
            before = {name: cpu_seconds(home) for name, home in homes.items()}
            found = asyncio.run(measure(hub, given.jobs))
            used = {name: cpu_seconds(home) - before[name] for name, home in homes.items()}
        finally:
            if given.slow:
                stop(hub, names[-1], signal.SIGCONT)
            for home in (hub, *(hub / "members" / name for name in names)):
                words = ["down", "--data-dir", str(home)]
                subprocess.run([sys.executable, "-m", "unisono", *words], check=False, capture_output=True)
    rate = given.jobs / found["seconds"]
    more = ", one more is stopped" if given.slow else f", one more is {given.delay:g} s late" if given.delay else ""
    print(f"{given.jobs} jobs over {given.members} members{more}:")
    print(f"written in {found['written']:.1f} s, the first ran after {found['first']:.1f} s, all after")
    print(f"{found['seconds']:.1f} s: {rate:.0f} jobs/s")
    print("milliseconds of CPU a job: " + ", ".join(f"{name} {1e3 * used[name] / given.jobs:.1f}" for name in used))


def stop(hub: Path, name: str, number: int) -> None:
    """Send a signal to the processes of a member."""
    pid = DataDir.at(hub / "members" / name).running_pid()
    if pid is not None:
        os.killpg(os.getpgid(pid), number)


if __name__ == "__main__":
    main()
