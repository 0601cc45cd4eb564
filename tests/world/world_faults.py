"""Deliberate faults: each is put into the imported code, and the worlds are asked whether they find it.

Each names a kind of worlds. ``python tests/world/world_faults.py`` puts in all of them, one after the other, and prints
which share of these worlds finds each; with names of faults only these. The sources on the disk stay as they are.
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
from world_profiles import seeds_of, story

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_SOURCES = _ROOT / "src"


@dataclass(frozen=True, slots=True)
class Fault:
    """``old``, which the module contains once, becomes ``new``.

    Attributes:
        kind: of the worlds that find it (``world_profiles``), by at least half of their seeds.
        more: further changes of the same kind, where two layers hold one rule: module, old and new.
        hidden: why no world can find it, or has not.

    """

    name: str
    kind: str
    module: str
    old: str
    new: str
    more: tuple[tuple[str, str, str], ...] = ()
    hidden: str = ""

    @property
    def changes(self) -> dict[str, list[tuple[str, str]]]:
        """By module, the texts that become others."""
        found: dict[str, list[tuple[str, str]]] = {}
        for module, old, new in ((self.module, self.old, self.new), *self.more):
            found.setdefault(module, []).append((old, new))
        return found


FAULTS = (
    Fault(
        "drop-an-fsync",
        "disk",
        "unisono.apiserver.storage.database",
        '"PRAGMA synchronous = FULL"',
        '"PRAGMA synchronous = OFF"',
    ),
    Fault(
        "answer-before-the-commit",
        "disk",
        "unisono.apiserver.storage.store",
        "        self._writer.submit(Commit(self._epoch, events, done))\n",
        "        self._writer.submit(Commit(self._epoch, events, done))\n        done(None)\n",
    ),
    Fault(
        "keep-pending-what-failed",
        "disk",
        "unisono.apiserver.storage.store",
        "            self._pending.clear()\n",
        "            pass\n",
    ),
    Fault(
        "commit-what-builds-on-a-failure",
        "disk",
        "unisono.apiserver.storage.store",
        "if commit.epoch <= self._failed_epoch]",
        "if commit.epoch <= -2]",
        more=(
            (
                "unisono.apiserver.storage.store",
                "if commit.epoch > self._failed_epoch]",
                "if commit.epoch > -2]",
            ),
        ),
    ),
    Fault(
        "tell-nobody-that-history-is-gone",
        "watches",
        "unisono.apiserver.storage.objects",
        "        if revision < self.compacted:\n            return None\n",
        "",
    ),
    Fault(
        "watch-from-one-later-than-the-list",
        "watches",
        "unisono.kube.reflector",
        "        self._resource_version = resource_version\n        self._sink.replace",
        "        self._resource_version = str(int(resource_version) + 2)\n        self._sink.replace",
    ),
    Fault(
        "forget-what-was-deleted-between-two-lists",
        "watches",
        "unisono.kube.informer",
        "            self._remove(key, self._objects[key])\n        for key, obj in listed.items()",
        "            pass\n        for key, obj in listed.items()",
    ),
    Fault(
        "lose-a-key-that-is-in-work",
        "controllers",
        "unisono.kube.workqueue",
        "        if key in self._dirty and not self._closed:\n            self._push(key)\n",
        "        self._dirty.discard(key)\n",
    ),
    Fault(
        "take-a-lease-that-is-not-over",
        "leaders",
        "unisono.kube.leader",
        "        return now - self._seen[1] >= duration\n",
        "        return now - self._seen[1] >= 0.0\n",
    ),
    Fault(
        "lead-for-ever",
        "leaders",
        "unisono.kube.leader",
        "        return self._clock.monotonic() < self._valid_until\n",
        "        return self._valid_until > 0\n",
    ),
    Fault(
        "bind-without-assuming",
        "binds",
        "unisono.scheduler.binder",
        '                self._feed.state.assume(f"{bind.namespace}/{bind.pod}", bind.node, bind.annotations)\n',
        "",
    ),
    Fault(
        "forget-the-rollback-of-a-failed-bind",
        "binds",
        "unisono.scheduler.binder",
        '            self._feed.do(partial(self._feed.state.forget, f"{bind.namespace}/{bind.pod}"))\n',
        "            pass\n",
    ),
    Fault(
        "take-a-conflict-for-a-success",
        "binds",
        "unisono.scheduler.binder",
        "            except (NotFound, Conflict) as error:\n                why = str(error)\n"
        "                wait = 0.0\n",
        "            except (NotFound, Conflict):\n                return Outcome.BOUND, ''\n",
    ),
    Fault(
        "take-a-lost-answer-for-a-failure",
        "binds",
        "unisono.scheduler.binder",
        "                why = str(error)\n                wait = getattr",
        "                return Outcome.FAILED, str(error)\n                wait = getattr",
    ),
    Fault(
        "never-give-a-part-of-a-gang-back",
        "gangs",
        "unisono.scheduler.evictor",
        "            if now - since < self.patience or busy(key):\n",
        "            if True:\n",
        hidden="needs a part of a gang that is bound and not started for minutes",
    ),
    Fault(
        "forget-a-victim-that-stands",
        "evictions",
        "unisono.scheduler.evictor",
        "        self._feed.do(partial(self._feed.state.keep, key))\n",
        "",
    ),
    Fault(
        "count-a-pod-twice",
        "binds",
        "unisono.cluster.state",
        "            if old is not None:\n                self._take_out(old)\n            self._put_in(task)\n",
        "            if old is not None:\n                self._take_out(old)\n            self._put_in(task)\n"
        "            if task.node and old is not None:\n                self._occupy(task, 1)\n",
    ),
    Fault(
        "free-a-node-before-the-pod-is-gone",
        "evictions",
        "unisono.cluster.state",
        "        releasing = task.status is TaskStatus.RELEASING\n",
        "        releasing = False\n        if task.status is TaskStatus.RELEASING:\n            return\n",
    ),
    Fault(
        "bind-gangs-in-part",
        "gangs",
        "unisono.engine.plugins.gang",
        "        if not job.is_ready or (job.min_task_member and any(_short_roles(job, READY_STATES))):\n"
        "            return False\n",
        "        return True\n",
    ),
    Fault(
        "forget-a-queue's-limit",
        "limits",
        "unisono.engine.plugins.capacity.plugin",
        "        for branch in self.branches[queue.name].chain():\n            refusal = self._over(branch, request)\n",
        "        for branch in []:\n            refusal = self._over(branch, request)\n",
        more=(
            (
                "unisono.engine.plugins.capacity.plugin",
                "        for row, need in self._demand(pod_class):\n            room = min(room, *(",
                "        for row, need in []:\n            room = min(room, *(",
            ),
            (
                "unisono.engine.session.queue_limits",
                "    limits = limits_of(snapshot, snapshot.registry)\n    if not limits:\n",
                "    limits = limits_of(snapshot, snapshot.registry)\n    if True:\n",
            ),
        ),
    ),
    Fault(
        "forget-a-user's-limit-in-growth",
        "limits",
        "unisono.engine.session.limit",
        "        least = UNLIMITED\n",
        "        return UNLIMITED\n        least = UNLIMITED\n",
    ),
    Fault(
        "forget-in-a-limit-what-a-cycle-has-placed",
        "limits",
        "unisono.engine.session.limit",
        "        self.held += amounts\n",
        "        pass\n",
    ),
    Fault(
        "forget-a-rollback-in-a-cycle",
        "gangs",
        "unisono.engine.cycle.transaction",
        "            for column in placement.columns:\n                session.matrix[:, column] -= change\n"
        "        session.touched.extend(placement.columns)\n        self._take_effect(placement, placement.status",
        "            pass\n        self._take_effect(placement, placement.status",
    ),
    Fault(
        "leave-pods-on-a-node-that-is-gone",
        "machines",
        "unisono.controllers.nodes",
        "        for pod in pods:\n            try:\n                await self._remove(pod)\n",
        "        for pod in pods:\n            try:\n                pass\n",
    ),
    Fault(
        "bind-a-pod-that-is-bound",
        "binds",
        "unisono.apiserver.operations.subresources",
        "    if pod.spec.node_name:\n",
        "    if False:\n",
    ),
    Fault(
        "write-counts-without-end",
        "controllers",
        "unisono.controllers.queue",
        "        plan = decide(queue, parent, self._groups.by_index(GROUP_INDEX, key), commands)\n",
        "        plan = decide(queue, parent, self._groups.by_index(GROUP_INDEX, key), commands)\n"
        "        plan.patch = {'metadata': {'annotations': {'seen': str(self._clock.time())}}}\n",
    ),
    Fault(
        "leave-orphans",
        "controllers",
        "unisono.apiserver.housekeeping.gc",
        '        lost = {uid for uid, state in states.items() if state != "alive"}\n',
        "        lost: set[str] = set()\n",
    ),
    Fault(
        "collect-what-has-an-owner",
        "controllers",
        "unisono.apiserver.housekeeping.gc",
        '        lost = {uid for uid, state in states.items() if state != "alive"}\n',
        "        lost = set(states)\n",
    ),
    Fault(
        "let-a-stale-change-in",
        "controllers",
        "unisono.apiserver.operations.strategy",
        "if meta.resource_version and meta.resource_version != before.resource_version:",
        "if False:",
    ),
    Fault(
        "begin-again-with-an-older-revision",
        "disk",
        "unisono.apiserver.storage.store",
        "        self._revision = self._assigned = loaded.revision\n",
        "        self._revision = self._assigned = max(0, loaded.revision - 2)\n",
        hidden="the data file has a unique key of revisions, which refuses it",
    ),
    Fault(
        "lose-a-deletion",
        "watches",
        "unisono.kube.informer",
        "            self._remove(obj.key, obj)\n        else:",
        "            pass\n        else:",
    ),
    Fault(
        "skip-a-fence",
        "leaders",
        "unisono.kube.leader",
        "    def _check(self) -> None:\n",
        "    def _check(self) -> None:\n        return\n",
    ),
    Fault(
        "make-no-pod-a-second-time",
        "controllers",
        "unisono.controllers.job.sync",
        "        missing = _missing(view, pods, seen.expected)\n",
        "        missing = _missing(view, pods, seen.expected) if not pods else iter(())\n",
    ),
    Fault(
        "keep-pods-beyond-the-size",
        "controllers",
        "unisono.controllers.job.decide",
        "[pod.pod for pod in self.pods if not pod.deleting and self._doomed(pod, state)]",
        "[]",
    ),
    Fault(
        "forget-to-come-back-for-a-finished-job",
        "controllers",
        "unisono.controllers.cronjob.controller",
        "                return due - self._clock.time()\n",
        "                return None\n",
    ),
    Fault(
        "forget-when-a-pod-ends",
        "machines",
        "unisono.agent.simulated.nodes",
        "                self._alarms.at(end, key)\n",
        "                pass\n",
    ),
    Fault(
        "never-finish-a-deleted-pod",
        "machines",
        "unisono.agent.simulated.nodes",
        "            await self._finish(pod)\n",
        "            pass\n",
    ),
    Fault(
        "number-two-changes-alike",
        "disk",
        "unisono.apiserver.storage.store",
        "        self._assigned += 1\n",
        "        self._assigned = self._revision + 1\n",
    ),
    Fault(
        "ask-again-for-what-was-heard",
        "watches",
        "unisono.kube.reflector",
        "        self._resource_version = event.object.metadata.resource_version or self._resource_version\n",
        "        self._resource_version = self._resource_version or event.object.metadata.resource_version\n",
    ),
    Fault(
        "remove-what-has-finalizers",
        "controllers",
        "unisono.apiserver.operations.deletion",
        "or meta.finalizers or meta.deletion_grace_period_seconds",
        "or meta.deletion_grace_period_seconds",
    ),
    Fault(
        "ignore-a-budget",
        "evictions",
        "unisono.scheduler.evictor",
        '        if action != RUN_TIME and self._has_budget(f"{namespace}/{name}"):  # as with a deadline of its own\n',
        "        if False:\n",
        more=(
            (
                "unisono.engine.plugins.protected_pods",
                "            if all(spent[key] < self.allowed[key] for key in keys):\n",
                "            if True:\n",
            ),
        ),
    ),
    Fault(
        "forget-a-host-port",
        "binds",
        "unisono.cluster.state",
        "                self.port_holders.setdefault(task.node, {})[task.key] = task.pod_class\n",
        "                pass\n",
    ),
    Fault(
        "admit-beyond-the-capability",
        "limits",
        "unisono.engine.plugins.capacity.plugin",
        "            short = exceeded(taken, request, branch.admission)\n",
        "            short = []\n",
    ),
    Fault(
        "forget-that-a-node-was-deleted",
        "machines",
        "unisono.cluster.state",
        "    def _remove_node(self, name: str) -> bool:\n",
        "    def _remove_node(self, name: str) -> bool:\n        return False\n",
    ),
    Fault(
        "never-give-a-quota-back",
        "limits",
        "unisono.apiserver.admission.quotas",
        "            left = used_before if entry is not None and counts(quota, before) else {}\n",
        "            left = {}\n",
    ),
    Fault(
        "evict-below-the-minimum-of-a-gang",
        "evictions",
        "unisono.engine.plugins.gang",
        "        if job.ready_count - taken[whole] <= job.min_member:\n            return False\n",
        "",
        more=(
            (
                "unisono.engine.plugins.gang",
                "        return np.asarray(jobs.spare > 0) if purpose",
                "        return np.asarray(jobs.spare > -99) if purpose",
            ),
        ),
        hidden="no rule judges gangs that were whole and lost a member",
    ),
    Fault(
        "forget-who-holds-a-card",
        "devices",
        "unisono.engine.plugins.deviceshare.book",
        "    def _take_up(self, task: Task, row: int, holds: Holds) -> None:\n",
        "    def _take_up(self, task: Task, row: int, holds: Holds) -> None:\n        return\n",
    ),
    Fault(
        "give-a-device-to-two-claims",
        "devices",
        "unisono.engine.plugins.predicates.device_inventory",
        "if unit.name not in self.book.taken]",
        "]",
    ),
    Fault(
        "leave-a-rack",
        "network",
        "unisono.engine.plugins.network_topology_aware.plugin",
        "        if limit is None:\n            return [[top]]\n        at = groups.at",
        "        if True:\n            return [[top]]\n        at = groups.at",
    ),
    Fault(
        "fall-back-from-what-is-refused",
        "reloads",
        "unisono.scheduler.settings",
        "        self._error = why\n",
        "        self._error, self._config = why, None\n",
    ),
    Fault(
        "keep-a-configuration-that-is-gone",
        "reloads",
        "unisono.scheduler.settings",
        "        if self._maps.pop(name, None) is not None:\n",
        "        if False:\n",
    ),
    Fault(
        "decide-with-the-first-configuration",
        "reloads",
        "unisono.scheduler.scheduler",
        "            decisions, version = await self._decide_on(config)\n",
        "            decisions, version = await self._decide_on(self._seen_config or config)\n"
        "            config = self._seen_config or config\n",
    ),
    Fault(
        "read-what-another-release-says",
        "reloads",
        "unisono.scheduler.settings",
        "if any_release else named\n",
        "\n",
    ),
    Fault(
        "offer-what-does-not-help",
        "answers",
        "unisono.engine.verdicts.advise",
        "                if trials.starts(self.key, change):\n",
        "                if True:\n",
    ),
    Fault(
        "leave-a-waiting-job-without-a-verdict",
        "answers",
        "unisono.engine.verdicts.advise",
        "    return {key: _finished(answered.get(key, draft), off) for key, draft in drafts.items()}\n",
        "    drafts.pop(turns[-1])\n"
        "    return {key: _finished(answered.get(key, draft), off) for key, draft in drafts.items()}\n",
    ),
    Fault(
        "go-to-any-kind-of-nodes",
        "choices",
        "unisono.engine.plugins.one_of",
        "        return (Veto(~self.choices.nodes(part.kind)[nodes.columns], not_of(part.kind.name)),)\n",
        "        return ()\n",
        more=(
            (
                "unisono.engine.closing.invariants",
                "    for placement in cycle.bound:\n        part = choices.part(",
                "    for placement in []:\n        part = choices.part(",
            ),
        ),
    ),
    Fault(
        "forget-who-holds-licences",
        "choices",
        "unisono.engine.session.floating",
        "        limit.held[row] = int(nodes.used[row].sum()) - leaving + floating.by_jobs\n",
        "        pass\n",
    ),
    Fault(
        "forget-what-whole-jobs-hold",
        "choices",
        "unisono.engine.session.floating",
        "        limit.held[row] = int(nodes.used[row].sum()) - leaving + floating.by_jobs\n",
        "        limit.held[row] = int(nodes.used[row].sum()) - leaving\n",
    ),
)


def source_of(module: str) -> Path:
    """The file of a module."""
    return _SOURCES / Path(*module.split(".")).with_suffix(".py")


def faulty(fault: Fault) -> dict[str, str]:
    """The texts of the modules with the fault.

    Raises:
        ValueError: a text that the fault changes is not there once.

    """
    found = {}
    for module, changes in fault.changes.items():
        text = source_of(module).read_text()
        for old, new in changes:
            if text.count(old) != 1:
                raise ValueError(f"{fault.name}: {module} has {text.count(old)} times what it changes")
            text = text.replace(old, new)
        found[module] = text
    return found


@contextmanager
def put_in(fault: Fault) -> Iterator[None]:
    """The functions of the imported modules have the fault meanwhile."""
    sound: dict[FunctionType, CodeType] = {}
    for module, text in faulty(fault).items():
        importlib.import_module(module)
        spoiled = _spoil(source_of(module), text)
        if not spoiled:
            raise ValueError(f"{fault.name} changes no function of {module}")
        sound |= spoiled
    try:
        yield
    finally:
        for function, code in sound.items():
            function.__code__ = code


def _spoil(path: Path, text: str) -> dict[FunctionType, CodeType]:
    """Give the functions of a file those codes of ``text`` that differ; answers what they had."""
    file = str(path)
    places = {_at(code): name for name, code in _codes(path.read_text(), file).items()}
    spoiled, sound = _codes(text, file), {}
    gc.unfreeze()  # what is frozen is not listed
    for function in [one for one in gc.get_objects() if isinstance(one, FunctionType)]:
        code = function.__code__
        place = places.get(_at(code)) if code.co_filename == file else None
        if place in spoiled and not _alike(code, spoiled[place]):
            sound[function] = code
            function.__code__ = spoiled[place]
    return sound


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


@dataclass(frozen=True, slots=True)
class Hunt:
    """What worlds found with a fault.

    Attributes:
        lived: seeds that were lived.
        found: of these, those that found something, and what.
        seconds: of CPU.

    """

    lived: list[int]
    found: dict[int, str]
    seconds: float


def hunted(fault: Fault, seeds: Iterable[int], seconds: float = 60.0, enough: int = 1) -> Hunt:
    """Live worlds with the fault until so many found it, or ``seconds`` of CPU are over."""
    begun, tried, found = time.process_time(), list[int](), dict[int, str]()
    with put_in(fault), ExitStack() as after:
        after.callback(sweep)
        for seed in seeds:
            outcome = lived(story(seed, short=True), until=bool)
            tried.append(seed)
            if outcome.found:
                found[seed] = outcome.found[0]
            if len(found) >= enough or time.process_time() - begun > seconds:
                break
    return Hunt(tried, found, time.process_time() - begun)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--worlds", type=int, default=4, help="of its kind, for each fault")
    parser.add_argument("--seeds", help="A-B, instead of the first of its kind")
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds for each fault")
    given = parser.parse_args()
    if unknown := set(given.names) - {fault.name for fault in FAULTS}:
        parser.error(f"no fault is called {', '.join(sorted(unknown))}")
    missed = 0
    for fault in [fault for fault in FAULTS if fault.name in given.names or not given.names]:
        first, _, last = (given.seeds or "0").partition("-")
        seeds = range(int(first), int(last or first) + 1) if given.seeds else seeds_of(fault.kind, given.worlds)
        hunt = hunted(fault, seeds, given.seconds, enough=len(seeds))
        what = next(iter(hunt.found.values()), fault.hidden)
        missed += len(hunt.found) * 2 < len(hunt.lived)
        share = f"{len(hunt.found)}/{len(hunt.lived)}"
        each = hunt.seconds / max(len(hunt.found), 1)
        print(f"{fault.name:48} {fault.kind:12} {share:6} {each:5.1f} s a finding: {what[:140]}", flush=True)
    print(f"{missed} are found by fewer than half of the worlds")
    return missed


if __name__ == "__main__":
    sys.exit(main())
