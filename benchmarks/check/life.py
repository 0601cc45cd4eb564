"""A cluster that lives: the scheduler decides, pods start, end, terminate and vanish, new jobs come.

What happens to an object depends on the seed, the cycle and the object alone, so a cluster from which objects were
taken away lives on as before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from benchmarks.check.facts import Facts, Turn
from benchmarks.check.rules import check
from benchmarks.check.rules.conserving import fitting
from benchmarks.check.rules.quarrels import Quarrel
from benchmarks.check.world import START, Object, World, stamp
from unisono import engine
from unisono.api.decode import decode
from unisono.api.kinds import find
from unisono.cluster.state import ClusterState
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.decisions import Decisions

CYCLES = 8
_PERIOD = 60.0
# Cycles in which nothing happens by itself, once in each life.
_REST = 6
_CONFIGS: dict[str, SchedulerConfig] = {}


@dataclass(frozen=True)
class Finding:
    """Something wrong: in which cycle of which cluster, and with which configuration."""

    seed: int
    cycle: int
    config: str
    texts: tuple[str, ...]


class Life:
    """One cluster through its cycles."""

    def __init__(self, seed: int, world: World, objects: Iterable[Object]) -> None:
        self.seed = seed
        self.decide = engine.run
        self.world = world
        self.cycle = 0
        self.fitted: set[str] = set()
        self.rested = False
        self.evicted: set[str] = set()
        self.objects: dict[str, Object] = {}
        self.state = ClusterState()
        for obj in objects:
            self._put(_copied(obj))

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return START + 200.0 + self.cycle * _PERIOD

    def run(self) -> Finding | None:
        """What the first wrong cycle did."""
        for self.cycle in range(CYCLES):
            facts = Facts.of(self.objects.values())
            decisions = self.decide(self.state.snapshot(), _config(self.world), self.now, self.seed, advice=False)
            turn = _turn(facts, self.world, self.now, decisions)
            texts = check(turn) + [f"{one.subject}: {one.message}" for one in decisions.violations]
            texts += self._waited(turn)
            if texts:
                return Finding(self.seed, self.cycle, self.world.config, tuple(texts))
            self._apply(turn, decisions)
            if (turn.evictions or self.cycle == CYCLES - 1) and not self.rested:
                self.rested = True
                texts = self._rest(turn)
                if texts:
                    return Finding(self.seed, self.cycle, self.world.config, tuple(texts))
            self._live()
        return None

    def _rest(self, turn: Turn) -> list[str]:
        """What is wrong when nothing happens from here on but what is decided; who is evicted is replaced at once."""
        rest = Life(self.seed, self.world, self.objects.values())
        rest.evicted = {f"Pod {key}" for key, _, _ in turn.evictions}
        quarrel = Quarrel(turn)
        for rest.cycle in range(self.cycle + 1, self.cycle + 1 + _REST):
            rest._obey()
            facts = Facts.of(rest.objects.values())
            decisions = self.decide(rest.state.snapshot(), _config(self.world), rest.now, self.seed, advice=False)
            turn = _turn(facts, self.world, rest.now, decisions)
            texts = check(turn) + [f"{one.subject}: {one.message}" for one in decisions.violations]
            texts += rest._waited(turn) + quarrel.seen(turn)
            if texts:
                return [f"at rest, cycle {rest.cycle}: {text}" for text in texts]
            rest._apply(turn, decisions)
        return quarrel.end()

    def _obey(self) -> None:
        """What was told to leave has gone, the evicted come back as new pods, and what has a node runs."""
        for key, obj in list(self.objects.items()):
            if obj["kind"] != "Pod":
                continue
            if obj["metadata"].get("deletionTimestamp"):
                self._remove(key)
                if key in self.evicted:
                    self._put(_fresh(_copied(obj), self.cycle, self.now))
            elif obj["spec"].get("nodeName") and obj["status"]["phase"] == "Pending":
                self._enter(obj, "Running")

    def _waited(self, turn: Turn) -> list[str]:
        """Gangs that fitted into what this cycle left, and into what the one before left."""
        fits = set(fitting(turn))
        both, self.fitted = sorted(fits & self.fitted), fits
        return [f"PodGroup {key} waits for the second cycle though it fits" for key in both]

    # ---- objects

    def _put(self, obj: Object) -> None:
        key = _key(obj)
        event = "MODIFIED" if key in self.objects else "ADDED"
        self.objects[key] = obj
        self._tell(event, obj)

    def _remove(self, key: str) -> None:
        self._tell("DELETED", self.objects.pop(key))

    def _tell(self, event: str, obj: Object) -> None:
        kind = find(obj["apiVersion"], obj["kind"])
        assert kind is not None
        decoded = decode(kind, obj)
        assert not decoded.unknown_fields, (obj, decoded.unknown_fields)
        assert not decoded.type_errors, decoded.type_errors
        self.state.apply(event, kind, decoded.obj)

    def _chance(self, key: str, what: str, share: float) -> bool:
        return Random(f"{self.seed}/{self.cycle}/{key}/{what}").random() < share

    # ---- what follows from decisions

    def _apply(self, turn: Turn, decisions: Decisions) -> None:
        for update in decisions.pod_groups:
            group = _copied(self.objects[f"PodGroup {update.key}"])
            group["status"]["phase"] = update.phase
            self._put(group)
        for condition in decisions.pod_conditions:
            pod = _copied(self.objects[f"Pod {condition.namespace}/{condition.pod}"])
            pod["status"]["nominatedNodeName"] = condition.nominated_node
            self._put(pod)
        for key, node in turn.binds:
            pod = _copied(self.objects[f"Pod {key}"])
            if self._chance(key, "assume", 0.5):
                self.state.assume(key, node)
            pod["spec"]["nodeName"] = node
            started = "Running" if self._chance(key, "start", 0.8) else "Pending"
            pod["status"] = {"phase": started, "startTime": stamp(self.now)}
            self._put(pod)
        for key, _, _ in turn.evictions:
            self.state.release(key, self.now)
            self._terminate(f"Pod {key}")
            self.evicted.add(f"Pod {key}")

    def _terminate(self, key: str) -> None:
        pod = _copied(self.objects[key])
        pod["metadata"]["deletionTimestamp"] = stamp(self.now)
        self._put(pod)

    # ---- what happens by itself

    def _live(self) -> None:
        for key, obj in list(self.objects.items()):
            if obj["kind"] == "Pod":
                self._live_pod(key, obj)
            elif obj["kind"] == "Node" and self._chance(key, "cordon", 0.04):
                node = _copied(obj)
                node["spec"]["unschedulable"] = not node["spec"]["unschedulable"]
                self._put(node)
            elif obj["kind"] == "Queue" and obj["metadata"]["name"].startswith(("flat", "team")):
                self._live_queue(key, obj)
        if self._chance("", "arrival", 0.35):
            arrivals = World(0)
            arrivals.__dict__.update(self.world.__dict__)
            arrivals.random = Random(f"{self.seed}/{self.cycle}/job")
            arrivals.luck = Random(f"{self.seed}/{self.cycle}/licences")
            for obj in arrivals.job(f"new{self.cycle}", self.now, running=False):
                if obj["spec"].get("queue", "default") in self.world.queues:
                    self._put(obj)

    def _live_pod(self, key: str, obj: Object) -> None:
        if obj["metadata"].get("deletionTimestamp"):
            if self._chance(key, "gone", 0.5):
                self._remove(key)
                if self._chance(key, "again", 0.6):
                    self._put(_fresh(_copied(obj), self.cycle, self.now))
        elif obj["spec"].get("nodeName"):
            if obj["status"]["phase"] == "Pending":
                self._enter(obj, "Running")
            elif obj["status"]["phase"] == "Running":
                self._live_running(key, obj)
        elif obj["spec"].get("schedulingGates") and self._chance(key, "opened", 0.3):
            pod = _copied(obj)
            pod["spec"].pop("schedulingGates")
            self._put(pod)

    def _live_running(self, key: str, obj: Object) -> None:
        if self._chance(key, "end", 0.12):
            self._enter(obj, "Succeeded" if self._chance(key, "well", 0.6) else "Failed")
        elif self._chance(key, "deleted", 0.06):
            self._terminate(key)
        elif self._chance(key, "lost", 0.01):
            self._enter(obj, "Unknown")

    def _enter(self, obj: Object, phase: str) -> None:
        pod = _copied(obj)
        pod["status"]["phase"] = phase
        self._put(pod)

    def _live_queue(self, key: str, obj: Object) -> None:
        if self._chance(key, "turn", 0.04):
            queue = _copied(obj)
            queue["status"]["state"] = "Closed" if queue["status"]["state"] == "Open" else "Open"
            self._put(queue)


def _copied(obj: Object) -> Object:
    """The same JSON again; several times faster than `copy.deepcopy`."""
    copy: Object = json.loads(json.dumps(obj))
    return copy


def _fresh(pod: Object, cycle: int, now: float) -> Object:
    pod["metadata"].pop("deletionTimestamp")
    pod["metadata"].update(uid=f"{pod['metadata']['uid']}-{cycle}", creationTimestamp=stamp(now))
    pod["spec"].pop("nodeName", None)
    pod["status"] = {"phase": "Pending"}
    return pod


def _key(obj: Object) -> str:
    meta = obj["metadata"]
    return (
        f"{obj['kind']} {meta['namespace']}/{meta['name']}" if "namespace" in meta else f"{obj['kind']} {meta['name']}"
    )


def _config(world: World) -> SchedulerConfig:
    found = _CONFIGS.get(world.config)
    if found is None:
        found = _CONFIGS[world.config] = load_config(json.dumps(world.settings), f"{world.config}.json")
    return found


def _turn(facts: Facts, world: World, now: float, decisions: Decisions) -> Turn:
    return Turn(
        facts=facts,
        config=world.settings,
        now=now,
        binds=[(f"{bind.namespace}/{bind.pod}", bind.node) for bind in decisions.binds],
        evictions=[(f"{one.namespace}/{one.pod}", one.reason, one.beneficiary) for one in decisions.evictions],
        promised={f"{one.namespace}/{one.pod}": one.node for one in decisions.pipelined},
        phases={update.key: update.phase for update in decisions.pod_groups},
    )


def examine(seed: int, without: frozenset[str] = frozenset()) -> Finding | None:
    """The first finding in the cluster of a seed, from which objects may have been taken away."""
    world = World(seed)
    objects: list[Any] = [obj for obj in world.objects() if _key(obj) not in without]
    return Life(seed, world, objects).run()


def shrink(finding: Finding) -> tuple[list[Object], Finding]:
    """Fewer objects with which something of the kind is still found, and what is."""
    whole = World(finding.seed).objects()
    without: frozenset[str] = frozenset()
    words = _kind(finding)
    progress = True
    while progress:
        progress = False
        for obj in whole:
            key = _key(obj)
            if key in without:
                continue
            fewer = without | {key}
            again = _examined(finding.seed, fewer)
            if again is not None and _kind(again) & words:
                without, finding, progress = fewer, again, True
    return [obj for obj in whole if _key(obj) not in without], finding


def _examined(seed: int, without: frozenset[str]) -> Finding | None:
    try:
        return examine(seed, without)
    except (KeyError, AssertionError):
        return None


def _kind(finding: Finding) -> set[str]:
    return {" ".join(word for word in text.split() if word.isalpha() and word.islower()) for text in finding.texts}
