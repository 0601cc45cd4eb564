"""``python -m benchmarks.fleet_kills``: a hub and its members are killed at random moments while jobs flow.

All of them are control planes of their own processes, with simulated nodes. Each is killed with SIGKILL, with its
worker, and started again after a while. At the end every job must have run to its end once: none is lost, none has two
copies, and no gang was ever seen partial for longer than a start takes. Prints one line for each kill and one for the
result, and ends with 1 where something is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from unisono.api.annotations import ORIGIN_UID, WORKER_LOST_TIMEOUT
from unisono.api.groups.batch import Job
from unisono.api.kinds import JOBS, PODS
from unisono.errors import UnisonoError
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import load
from unisono.standalone.paths import DataDir

_PODS = 3
_LOOK_SECONDS = 0.5


def unisono(*words: str) -> None:
    """Run the command line."""
    subprocess.run([sys.executable, "-m", "unisono", *words], check=True, stdout=subprocess.DEVNULL)


def job(number: int, seconds: int) -> Job:
    """A gang of pods with a GPU each, that runs for some seconds."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}}
    template = {
        "metadata": {"annotations": {"unisono.io/run-seconds": str(seconds)}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    meta = {"name": f"j{number:04}", "namespace": "default", "annotations": {WORKER_LOST_TIMEOUT: "1h"}}
    task = {"name": "w", "replicas": _PODS, "template": template}
    spec = {"queue": "default", "minAvailable": _PODS, "schedulerName": "volcano", "tasks": [task]}
    return msgspec.convert({"metadata": meta, "spec": spec}, Job)


@dataclass(slots=True)
class Seen:
    """What was seen of all jobs at all looks.

    Attributes:
        twice: jobs with pods that run in two members at once.
        partial: looks in a row at which a gang ran with too few pods, the longest by job.
        ran: members in which a job was seen running.
    """

    twice: set[str] = field(default_factory=set)
    partial: Counter[str] = field(default_factory=Counter)
    longest: Counter[str] = field(default_factory=Counter)
    ran: dict[str, set[str]] = field(default_factory=dict)

    def look(self, running: dict[str, dict[str, int]]) -> None:
        """``running``: pods that run, by job and member."""
        for name in [*self.partial]:
            if sum(running.get(name, {}).values()) in (0, _PODS):
                del self.partial[name]
        for name, at in running.items():
            self.ran.setdefault(name, set()).update(at)
            if len(at) > 1:
                self.twice.add(name)
            if sum(at.values()) < _PODS:
                self.partial[name] += 1
                self.longest[name] = max(self.longest[name], self.partial[name])


class Plane:
    """One control plane, and its end at any moment."""

    def __init__(self, home: Path, *words: str) -> None:
        self.home, self._words = home, words
        self.client: HttpClient | None = None

    def start(self) -> None:
        """Start it, or start it again with its data."""
        unisono("up", "--detach", "--data-dir", str(self.home), *self._words)

    def connect(self) -> None:
        """Talk to it, now that it runs; its address may be a new one."""
        self.client = HttpClient(load(DataDir.at(self.home).kubeconfig))

    async def close(self) -> None:
        """Talk to it no more."""
        if self.client is not None:
            client, self.client = self.client, None
            await client.close()

    def kill(self) -> bool:
        """SIGKILL for its whole group; answers whether it ran."""
        pid = DataDir.at(self.home).running_pid()
        if pid is None:
            return False
        os.killpg(os.getpgid(pid), signal.SIGKILL)
        while DataDir.at(self.home).running_pid() is not None:
            time.sleep(0.05)
        return True

    async def list(self, kind: Any) -> list[Any]:
        """Objects of a kind; none while it is down."""
        if self.client is None:
            return []
        try:
            async with asyncio.timeout(3):
                return list((await self.client.list(kind, "default")).items)
        except (UnisonoError, OSError, TimeoutError):
            return []


async def watch(members: dict[str, Plane], seen: Seen, ended: asyncio.Event) -> None:
    """Look at the pods of all members until all is over."""
    while not ended.is_set():
        running: dict[str, dict[str, int]] = {}
        told = await asyncio.gather(*(plane.list(PODS) for plane in members.values()))
        for name, pods in zip(members, told, strict=True):
            for pod in pods:
                labels = pod.metadata.labels or {}
                if pod.status.phase == "Running" and ORIGIN_UID in labels and not pod.metadata.deletion_timestamp:
                    at = running.setdefault(labels.get("volcano.sh/job-name", ""), {})
                    at[name] = at.get(name, 0) + 1
        seen.look(running)
        await asyncio.sleep(_LOOK_SECONDS)


async def flow(hub: Plane, members: dict[str, Plane], given: argparse.Namespace, seen: Seen) -> list[str]:
    """Write jobs and kill; answers what is wrong at the end."""
    rng, ended = random.Random(given.seed), asyncio.Event()
    for plane in (hub, *members.values()):
        plane.connect()
    watching = asyncio.create_task(watch(members, seen, ended))
    kills, written = 0, 0
    started = time.monotonic()
    while kills < given.kills or written < given.jobs:
        for _ in range(rng.randrange(1, 4)):
            if written < given.jobs and hub.client is not None:
                try:
                    await hub.client.create(JOBS, job(written, rng.randrange(2, given.seconds)))
                    written += 1
                except UnisonoError as error:
                    if getattr(error, "code", 0) == 409:
                        written += 1  # the answer was lost, and the job was not
        await asyncio.sleep(rng.uniform(0.0, 2.0))
        if kills < given.kills and rng.random() < 0.5:
            name, plane = rng.choice([("hub", hub), ("hub", hub), *members.items()])
            plane.kill()
            await plane.close()
            kills += 1
            down = rng.uniform(0.0, 5.0)
            print(f"{time.monotonic() - started:6.1f} s  killed {name}, down for {down:.1f} s", flush=True)
            await asyncio.sleep(down)
            await asyncio.to_thread(plane.start)
            plane.connect()
            print(f"{time.monotonic() - started:6.1f} s  {name} is up again", flush=True)
    wrong = await outcome(hub, members, given, seen)
    ended.set()
    await watching
    for plane in (hub, *members.values()):
        await plane.close()
    return wrong


async def outcome(hub: Plane, members: dict[str, Plane], given: argparse.Namespace, seen: Seen) -> list[str]:
    """Wait until all jobs have ended, and compare."""
    deadline = time.monotonic() + given.patience
    phases: dict[str, str] = {}
    while time.monotonic() < deadline:
        phases = {each.metadata.name: each.status.state.phase or "" for each in await hub.list(JOBS)}
        if len(phases) == given.jobs and set(phases.values()) == {"Completed"}:
            break
        await asyncio.sleep(1)
    wrong = [f"{given.jobs - len(phases)} jobs are lost"] if len(phases) < given.jobs else []
    wrong += [f"{name} is {phase or 'Pending'}" for name, phase in phases.items() if phase != "Completed"]
    held = [copied for plane in members.values() for copied in await plane.list(JOBS)]
    copies = Counter(each.metadata.name for each in held if ORIGIN_UID in (each.metadata.labels or {}))
    wrong += [f"{name} has {count} copies" for name, count in copies.items() if count > 1]
    wrong += [f"{name} ran in two members at once" for name in sorted(seen.twice)]
    moved = [name for name, at in seen.ran.items() if len(at) > 1]
    wrong += [f"{name} ran in {', '.join(sorted(seen.ran[name]))}" for name in moved]
    # Pods of one gang start and end within moments of each other; a member that is killed starts all of them again.
    wrong += [f"{name} was partial for {count} looks" for name, count in seen.longest.items() if count > given.partial]
    return wrong


def main() -> None:
    """Start all, kill, compare, stop all."""
    parser = argparse.ArgumentParser(prog="benchmarks.fleet_kills", description=__doc__)
    parser.add_argument("--jobs", type=int, default=60, help="jobs  [default: 60]")
    parser.add_argument("--members", type=int, default=2, help="members  [default: 2]")
    parser.add_argument("--kills", type=int, default=12, help="kills  [default: 12]")
    parser.add_argument("--seconds", type=int, default=12, help="longest run of a job  [default: 12]")
    parser.add_argument("--seed", type=int, default=1, help="of the random moments  [default: 1]")
    parser.add_argument("--patience", type=float, default=240.0, help="seconds until all must have ended")
    parser.add_argument("--partial", type=int, default=20, help="looks at which a gang may be partial  [default: 20]")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="unisono-kills-") as folder:
        home = Path(folder) / "hub"
        nodes = Path(folder) / "nodes.yaml"
        nodes.write_text("- {name: node, count: 2, capacity: {cpu: 32, memory: 128Gi, nvidia.com/gpu: 8}}\n")
        hub = Plane(home, "--fleet", "--no-agent")
        names = [f"m{number}" for number in range(given.members)]
        members = {name: Plane(home / "members" / name, "--no-agent", "--nodes", str(nodes)) for name in names}
        seen = Seen()
        try:
            hub.start()
            for name in members:
                unisono("fleet", "embed", name, "--nodes", str(nodes), "--data-dir", str(home))
            wrong = asyncio.run(flow(hub, members, given, seen))
        finally:
            for each in (hub, *members.values()):
                words = ["down", "--data-dir", str(each.home)]
                subprocess.run([sys.executable, "-m", "unisono", *words], check=False, capture_output=True)
    print(f"{given.jobs} jobs of {_PODS} pods, {given.kills} kills (seed {given.seed}): ", end="")
    longest = max(seen.longest.values(), default=0) * _LOOK_SECONDS
    print("; ".join(wrong) or f"all ended, each in one member; a gang was seen partial for {longest:.1f} s at most")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
