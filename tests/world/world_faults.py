"""Deliberate faults: each is put into the source as it is imported, and the worlds are asked whether they find it.

``python tests/world/world_faults.py`` puts in all of them, one process each, and prints which are found and by which
seed; with names of faults only these. The sources on the disk stay as they are.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_SOURCES = _ROOT / "src"


@dataclass(frozen=True, slots=True)
class Fault:
    """``old``, which the module contains once, becomes ``new``; ``seed``: of the world that finds it.

    Attributes:
        seed: None where no world has found it yet.

    """

    name: str
    module: str
    old: str
    new: str
    seed: int | None = None


FAULTS = (
    Fault(
        "drop-an-fsync",
        "unisono.apiserver.storage.database",
        '"PRAGMA synchronous = FULL"',
        '"PRAGMA synchronous = OFF"',
        seed=1,
    ),
    Fault(
        "answer-before-the-commit",
        "unisono.apiserver.storage.store",
        "        self._writer.submit(Commit(self._epoch, events, done))\n",
        "        self._writer.submit(Commit(self._epoch, events, done))\n        done(None)\n",
        seed=3,
    ),
    Fault(
        "keep-pending-what-failed",
        "unisono.apiserver.storage.store",
        "            self._pending.clear()\n",
        "            pass\n",
    ),
    Fault(
        "commit-what-builds-on-a-failure",
        "unisono.apiserver.storage.writer",
        "if commit.epoch <= self._failed_epoch]",
        "if commit.epoch <= -2]",
    ),
    Fault(
        "tell-nobody-that-history-is-gone",
        "unisono.apiserver.storage.objects",
        "        if revision < self.compacted:\n            return None\n",
        "",
        seed=1,
    ),
    Fault(
        "watch-from-one-later-than-the-list",
        "unisono.kube.reflector",
        "        self._resource_version = resource_version\n        self._sink.replace",
        "        self._resource_version = str(int(resource_version) + 2)\n        self._sink.replace",
        seed=0,
    ),
    Fault(
        "forget-what-was-deleted-between-two-lists",
        "unisono.kube.informer",
        "            self._remove(key, self._objects[key])\n        for key, obj in listed.items()",
        "            pass\n        for key, obj in listed.items()",
    ),
    Fault(
        "go-on-after-the-last-list-when-a-watch-breaks",
        "unisono.kube.reflector",
        "        self._resource_version = event.object.metadata.resource_version or self._resource_version\n",
        "        if event.type == 'BOOKMARK':\n"
        "            self._resource_version = str(int(event.object.metadata.resource_version) + 9)\n",
    ),
    Fault(
        "lose-a-key-that-is-in-work",
        "unisono.kube.workqueue",
        "        if key in self._dirty and not self._closed:\n            self._push(key)\n",
        "        self._dirty.discard(key)\n",
        seed=5,
    ),
    Fault(
        "take-a-lease-that-is-not-over",
        "unisono.kube.leader",
        "        return now - self._seen[1] >= duration\n",
        "        return now - self._seen[1] >= 0.0\n",
        seed=0,
    ),
    Fault(
        "lead-for-ever",
        "unisono.kube.leader",
        "        return self._clock.monotonic() < self._valid_until\n",
        "        return self._valid_until > 0\n",
        seed=5,
    ),
    Fault(
        "bind-without-assuming",
        "unisono.scheduler.binder",
        '                self._feed.state.assume(f"{bind.namespace}/{bind.pod}", bind.node, bind.annotations)\n',
        "",
    ),
    Fault(
        "forget-the-rollback-of-a-failed-bind",
        "unisono.scheduler.binder",
        '            self._feed.do(partial(self._feed.state.forget, f"{bind.namespace}/{bind.pod}"))\n',
        "            pass\n",
    ),
    Fault(
        "take-a-conflict-for-a-success",
        "unisono.scheduler.binder",
        "            except (NotFound, Conflict) as error:\n                why = str(error)\n"
        "                wait = 0.0\n",
        "            except (NotFound, Conflict):\n                return Outcome.BOUND, ''\n",
    ),
    Fault(
        "take-a-lost-answer-for-a-failure",
        "unisono.scheduler.binder",
        "                why = str(error)\n                wait = getattr",
        "                return Outcome.FAILED, str(error)\n                wait = getattr",
    ),
    Fault(
        "never-give-a-part-of-a-gang-back",
        "unisono.scheduler.gangs",
        "            if now - since < self.patience or busy(key):\n",
        "            if True:\n",
    ),
    Fault(
        "forget-a-victim-that-stands",
        "unisono.scheduler.evictor",
        "            self._feed.do(partial(self._feed.state.keep, key))\n        _log",
        "            pass\n        _log",
    ),
    Fault(
        "count-a-pod-twice",
        "unisono.cluster.state",
        "            if old is not None:\n                self._take_out(old)\n            self._put_in(task)\n",
        "            if old is not None:\n                self._take_out(old)\n            self._put_in(task)\n"
        "            if task.node and old is not None:\n                self._occupy(task, 1)\n",
    ),
    Fault(
        "free-a-node-before-the-pod-is-gone",
        "unisono.cluster.state",
        "        releasing = task.status is TaskStatus.RELEASING\n",
        "        releasing = False\n        if task.status is TaskStatus.RELEASING:\n            return\n",
    ),
    Fault(
        "bind-gangs-in-part",
        "unisono.engine.plugins.gang",
        "        if not job.is_ready or (job.min_task_member and any(_short_roles(job, READY_STATES))):\n"
        "            return False\n",
        "        return True\n",
    ),
    Fault(
        "forget-a-queue's-limit",
        "unisono.engine.plugins.capacity.plugin",
        "            refusal = self._over(branch, request)\n            if refusal is not None:\n"
        "                return refusal\n        found = ",
        "            pass\n        return None\n        found = ",
    ),
    Fault(
        "forget-a-user's-limit-in-growth",
        "unisono.engine.plugins.user_limits",
        "    def allocatable(self, queue: QueueState, pod_class: PodClass) -> Refusal | None:\n",
        "    def allocatable(self, queue: QueueState, pod_class: PodClass) -> Refusal | None:\n        return None\n",
    ),
    Fault(
        "forget-a-rollback-in-a-cycle",
        "unisono.engine.cycle.transaction",
        "            for column in placement.columns:\n                session.matrix[:, column] -= change\n"
        "        session.touched.extend(placement.columns)\n        self._take_effect(placement, placement.status",
        "            pass\n        self._take_effect(placement, placement.status",
    ),
    Fault(
        "leave-pods-on-a-node-that-is-gone",
        "unisono.controllers.nodes.controller",
        "        for pod in pods:\n            try:\n                await self._remove(pod)\n",
        "        for pod in pods:\n            try:\n                pass\n",
    ),
    Fault(
        "bind-a-pod-that-is-bound",
        "unisono.apiserver.operations.pod_actions",
        "    if pod.spec.node_name:\n",
        "    if False:\n",
    ),
    Fault(
        "write-counts-without-end",
        "unisono.controllers.queue.controller",
        "        plan = decide(queue, parent, self._groups.by_index(GROUP_INDEX, key), commands)\n",
        "        plan = decide(queue, parent, self._groups.by_index(GROUP_INDEX, key), commands)\n"
        "        plan.patch = {'metadata': {'annotations': {'seen': str(self._clock.time())}}}\n",
    ),
    Fault(
        "leave-orphans",
        "unisono.apiserver.housekeeping.gc",
        '        lost = {uid for uid, state in states.items() if state != "alive"}\n',
        "        lost: set[str] = set()\n",
        seed=0,
    ),
)


class _Patched(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module with a fault in it."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._file = source_of(fault)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if name != self._fault.module:
            return None
        return importlib.util.spec_from_file_location(name, self._file, loader=self)

    def create_module(self, spec: Any) -> None:
        del spec

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(faulty(self._fault), str(self._file), "exec"), module.__dict__)


def source_of(fault: Fault) -> Path:
    """The file of the module."""
    return _SOURCES / Path(*fault.module.split(".")).with_suffix(".py")


def faulty(fault: Fault) -> str:
    """The module's text with the fault.

    Raises:
        ValueError: the text that the fault changes is not there once.

    """
    text = source_of(fault).read_text()
    if text.count(fault.old) != 1:
        raise ValueError(f"{fault.name}: {fault.module} has {text.count(fault.old)} times what it changes")
    return text.replace(fault.old, fault.new)


def _hunt(fault: Fault, seeds: Sequence[int], seconds: float) -> int:
    """Live worlds with the fault until one finds it; this process is of no use for anything else afterwards."""
    sys.meta_path.insert(0, _Patched(fault))
    from world_plane import lived
    from world_story import story

    begun, steps = time.process_time(), 0
    for seed in seeds:
        outcome = lived(story(seed, short=True))
        steps += outcome.steps
        if outcome.found:
            print(f"{fault.name}: seed {seed} after {steps} steps: {outcome.found[0]}", flush=True)
            return 0
        if time.process_time() - begun > seconds:
            break
    print(f"{fault.name}: NOT FOUND in {steps} steps", flush=True)
    return 1


def hunted(fault: Fault, seeds: str, seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Hunt for the fault in a process of its own."""
    path = os.pathsep.join([str(_HERE), str(_ROOT), str(_SOURCES)])
    words = [sys.executable, __file__, "--here", fault.name, "--seeds", seeds, "--seconds", str(seconds)]
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0", "PYTHONWARNINGS": "ignore"}
    return subprocess.run(words, capture_output=True, text=True, env=environment, check=False)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", default="0-11")
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds for each fault")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    faults = [fault for fault in FAULTS if not given.names or fault.name in given.names]
    if given.here:
        return _hunt(faults[0], range(int(first), int(last or first) + 1), given.seconds)
    missed = 0
    for fault in faults:
        done = hunted(fault, given.seeds, given.seconds)
        print(done.stdout.strip() or f"{fault.name}: {done.stderr.strip().splitlines()[-1:]}", flush=True)
        missed += done.returncode != 0
    print(f"{len(faults) - missed} of {len(faults)} are found")
    return missed


if __name__ == "__main__":
    sys.exit(main())
