"""Deliberate faults: each is put into the imported code, and the worlds are asked whether they find it.

``python tests/world/world_faults.py`` puts in all of them, one after the other, and prints which are found and by which
seed; with names of faults only these. The sources on the disk stay as they are.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType

from world_plane import lived, sweep
from world_story import story

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
        seed=3,
    ),
    Fault(
        "answer-before-the-commit",
        "unisono.apiserver.storage.store",
        "        self._writer.submit(Commit(self._epoch, events, done))\n",
        "        self._writer.submit(Commit(self._epoch, events, done))\n        done(None)\n",
        seed=1,
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
        seed=8,
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
        seed=2014,
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
        seed=3,
    ),
    Fault(
        "take-a-lease-that-is-not-over",
        "unisono.kube.leader",
        "        return now - self._seen[1] >= duration\n",
        "        return now - self._seen[1] >= 0.0\n",
        seed=1001,
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
        seed=1002,
    ),
    Fault(
        "forget-the-rollback-of-a-failed-bind",
        "unisono.scheduler.binder",
        '            self._feed.do(partial(self._feed.state.forget, f"{bind.namespace}/{bind.pod}"))\n',
        "            pass\n",
        seed=1003,
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
        "unisono.scheduler.evictor",
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
        seed=1101,
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
        "unisono.engine.session.limit",
        "        least = UNLIMITED\n",
        "        return UNLIMITED\n        least = UNLIMITED\n",
        seed=2000,
    ),
    Fault(
        "forget-in-a-limit-what-a-cycle-has-placed",
        "unisono.engine.session.limit",
        "        self.held += amounts\n",
        "        pass\n",
        seed=2000,
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
        "unisono.controllers.nodes",
        "        for pod in pods:\n            try:\n                await self._remove(pod)\n",
        "        for pod in pods:\n            try:\n                pass\n",
    ),
    Fault(
        "bind-a-pod-that-is-bound",
        "unisono.apiserver.operations.subresources",
        "    if pod.spec.node_name:\n",
        "    if False:\n",
        seed=2000,
    ),
    Fault(
        "write-counts-without-end",
        "unisono.controllers.queue",
        "        plan = decide(queue, parent, self._groups.by_index(GROUP_INDEX, key), commands)\n",
        "        plan = decide(queue, parent, self._groups.by_index(GROUP_INDEX, key), commands)\n"
        "        plan.patch = {'metadata': {'annotations': {'seen': str(self._clock.time())}}}\n",
        seed=2003,
    ),
    Fault(
        "leave-orphans",
        "unisono.apiserver.housekeeping.gc",
        '        lost = {uid for uid, state in states.items() if state != "alive"}\n',
        "        lost: set[str] = set()\n",
        seed=0,
    ),
    Fault(
        "collect-what-has-an-owner",
        "unisono.apiserver.housekeeping.gc",
        '        lost = {uid for uid, state in states.items() if state != "alive"}\n',
        "        lost = set(states)\n",
    ),
    Fault(
        "let-a-stale-change-in",
        "unisono.apiserver.operations.strategy",
        "if meta.resource_version and meta.resource_version != before.resource_version:",
        "if False:",
        seed=2000,
    ),
    Fault(
        "begin-again-with-an-older-revision",
        "unisono.apiserver.storage.store",
        "        self._revision = self._assigned = loaded.revision\n",
        "        self._revision = self._assigned = max(0, loaded.revision - 2)\n",
    ),
    Fault(
        "lose-a-deletion",
        "unisono.kube.informer",
        "            self._remove(obj.key, obj)\n        else:",
        "            pass\n        else:",
        seed=0,
    ),
    Fault(
        "skip-a-fence",
        "unisono.kube.leader",
        "    def _check(self) -> None:\n",
        "    def _check(self) -> None:\n        return\n",
        seed=2005,
    ),
    Fault(
        "make-no-pod-a-second-time",
        "unisono.controllers.job.sync",
        "        missing = _missing(view, pods, seen.expected)\n",
        "        missing = _missing(view, pods, seen.expected) if not pods else iter(())\n",
        seed=2000,
    ),
    Fault(
        "keep-pods-beyond-the-size",
        "unisono.controllers.job.decide",
        "[pod.pod for pod in self.pods if not pod.deleting and self._doomed(pod, state)]",
        "[]",
        seed=2000,
    ),
    Fault(
        "forget-to-come-back-for-a-finished-job",
        "unisono.controllers.cronjob.controller",
        "                return due - self._clock.time()\n",
        "                return None\n",
        seed=2000,
    ),
    Fault(
        "forget-when-a-pod-ends",
        "unisono.agent.simulated.nodes",
        "                self._alarms.at(end, key)\n",
        "                pass\n",
    ),
    Fault(
        "never-finish-a-deleted-pod",
        "unisono.agent.simulated.nodes",
        "            await self._finish(pod)\n",
        "            pass\n",
        seed=0,
    ),
)


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


@contextmanager
def put_in(fault: Fault) -> Iterator[None]:
    """The functions of the imported module have the fault meanwhile."""
    importlib.import_module(fault.module)
    file = str(source_of(fault))
    places = {place: name for name, code in _codes(source_of(fault).read_text(), file).items() for place in [_at(code)]}
    spoiled, sound = _codes(faulty(fault), file), {}
    gc.unfreeze()  # what is frozen is not listed
    for function in [one for one in gc.get_objects() if isinstance(one, FunctionType)]:
        code = function.__code__
        place = places.get(_at(code)) if code.co_filename == file else None
        if place in spoiled and not _alike(code, spoiled[place]):
            sound[function] = code
            function.__code__ = spoiled[place]
    if not sound:
        raise ValueError(f"{fault.name} changes no function")
    try:
        yield
    finally:
        for function, code in sound.items():
            function.__code__ = code


def _codes(text: str, file: str) -> dict[tuple[str, int], CodeType]:
    """By name and number among those of that name: of a property there may be two."""
    found: dict[tuple[str, int], CodeType] = {}
    codes = [compile(text, file, "exec")]
    for code in codes:
        codes += [one for one in code.co_consts if isinstance(one, CodeType)]
        number = sum(1 for name, _ in found if name == code.co_qualname)
        found[code.co_qualname, number] = code
    return found


def _at(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _alike(one: CodeType, other: CodeType) -> bool:
    """Whether two codes do the same."""
    inner = list(zip(one.co_consts, other.co_consts, strict=False))
    return (one.co_code, one.co_names, one.co_varnames, len(one.co_consts)) == (
        other.co_code,
        other.co_names,
        other.co_varnames,
        len(other.co_consts),
    ) and all(_alike(a, b) if isinstance(a, CodeType) and isinstance(b, CodeType) else a == b for a, b in inner)


def hunted(fault: Fault, seeds: Iterable[int], seconds: float = 60.0) -> tuple[int, str]:
    """Live worlds with the fault until one finds it.

    Returns:
        the world's seed and what it found; -1 and the steps in vain where none does within ``seconds`` of CPU.

    """
    begun, steps = time.process_time(), 0
    with put_in(fault), ExitStack() as after:
        after.callback(sweep)
        for seed in seeds:
            outcome = lived(story(seed, short=True), until=bool)
            steps += outcome.steps
            if outcome.found:
                return seed, outcome.found[0]
            if time.process_time() - begun > seconds:
                break
    return -1, f"{steps} steps"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", help="A-B, instead of the seed that is known for each")
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds for each fault")
    given = parser.parse_args()
    faults = [fault for fault in FAULTS if not given.names or fault.name in given.names]
    found = 0
    for fault in faults:
        begun = time.process_time()
        first, _, last = (given.seeds or str(fault.seed)).partition("-")
        seed, what = hunted(fault, range(int(first), int(last or first) + 1), given.seconds)
        found += seed >= 0
        told = f"seed {seed}: {what[:160]}" if seed >= 0 else f"NOT FOUND in {what}"
        print(f"{fault.name}: {told} ({time.process_time() - begun:.1f} CPU seconds)", flush=True)
    print(f"{found} of {len(faults)} are found")
    return len(faults) - found


if __name__ == "__main__":
    sys.exit(main())
