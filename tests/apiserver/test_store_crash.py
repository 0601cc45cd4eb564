"""kill -9 in the middle of writing: what was acknowledged is there, exactly once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading

import msgspec
import pytest

from support.backends import opened
from unisono.api.kinds import CONFIG_MAPS

_CHILD = """
import asyncio, sys
from unisono.api.kinds import CONFIG_MAPS
from unisono.apiserver.backend import Backend
from unisono.apiserver.types import DeleteOptions, WriteOptions

async def worker(service, who):
    options = WriteOptions()
    for i in range(100000):
        name = f"c{who}-{i}"
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"n": "0"}}
        await service.create(CONFIG_MAPS, "default", body, options)
        print("created", name, flush=True)
        if i % 3 == 0:
            await service.patch(CONFIG_MAPS, "default", name, {"data": {"n": "1"}}, "merge", options)
            print("patched", name, flush=True)
        if i % 5 == 0:
            print("deleting", name, flush=True)
            await service.delete(CONFIG_MAPS, "default", name, DeleteOptions())
            print("deleted", name, flush=True)

async def main():
    backend = await Backend.open(sys.argv[1])
    await asyncio.gather(*(worker(backend.service, f"{sys.argv[2]}-{n}") for n in range(8)))

asyncio.run(main())
"""


def write_until_killed(path, round_, lines):
    child = subprocess.Popen([sys.executable, "-c", _CHILD, str(path), str(round_)], stdout=subprocess.PIPE, text=True)
    said = []
    for line in child.stdout:
        said.append(line.split())
        if len(said) >= lines:
            child.send_signal(signal.SIGKILL)
            break
    # What the child said before it died is still in the pipe. A last line without its end was not said.
    said += [line.split() for line in child.stdout if line.endswith("\n")]
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    return said


def write_until_killed_at_random(path, round_, rng):
    """As ``write_until_killed``, by a timer that knows nothing of what is being written."""
    child = subprocess.Popen([sys.executable, "-c", _CHILD, str(path), str(round_)], stdout=subprocess.PIPE, text=True)
    said = [child.stdout.readline().split()]
    timer = threading.Timer(rng.uniform(0, 0.6), child.kill)
    timer.start()
    said += [line.split() for line in child.stdout if line.endswith("\n")]
    timer.join()
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    return said


@pytest.mark.more
@pytest.mark.processes
async def test_kills_at_random_moments_one_after_the_other_lose_nothing(tmp_path):
    path, rng = tmp_path / "state.db", random.Random(11)
    created, deleting = set(), set()
    for round_ in range(8):
        for what, name in write_until_killed_at_random(path, round_, rng):
            {"created": created, "deleting": deleting}.get(what, set()).add(name)
    assert len(created) > 20
    async with opened(path) as backend:
        page = await backend.service.list(CONFIG_MAPS, "default")
        stored = [msgspec.json.decode(item)["metadata"]["name"] for item in page.items]
        assert len(stored) == len(set(stored))
        assert created - deleting <= set(stored)


@pytest.mark.processes
@pytest.mark.parametrize("lines", [1, 150, 700])
async def test_no_acknowledged_write_is_lost(tmp_path, lines):
    path = tmp_path / "state.db"
    created, patched, deleting, deleted = set(), set(), set(), set()
    sets = {"created": created, "patched": patched, "deleting": deleting, "deleted": deleted}
    for round_ in range(2):  # the second time it starts from what a crash left behind
        for what, name in write_until_killed(path, round_, lines):
            sets[what].add(name)
    async with opened(path) as backend:
        page = await backend.service.list(CONFIG_MAPS, "default")
        found = [msgspec.json.decode(item) for item in page.items]
        stored = {item["metadata"]["name"]: item["data"]["n"] for item in found}
        assert len(stored) == len(found)
        assert created - deleting <= stored.keys()
        assert not deleted & stored.keys()
        assert {name for name in patched & stored.keys() if stored[name] != "1"} == set()
        newest = max(int(item["metadata"]["resourceVersion"]) for item in found)
        assert newest <= page.resource_version
