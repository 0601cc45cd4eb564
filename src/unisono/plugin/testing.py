"""What tests of a plug-in need: a world of a few lines, one cycle over it, and checks in worlds that are drawn.

::

    world = World().node("a", cpu=4).node("b", cpu=4, labels={"cost": "9"}).job("train", pods=2, cpu=1)
    assert world.cycle(Cheap).placed == {"train-0": "a", "train-1": "a"}

    check(Cheap, labels={"cost": ["1", "9"]})

`check` holds a plug-in against itself: its short cuts (`unisono.engine.contract.accelerated`) change no decision, and
the same world gives the same answers. Nothing here needs a cluster, a clock or another package.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from unisono.api.decode import decode
from unisono.api.keys import GROUP_NAME, HOSTNAME, NVIDIA_GPU
from unisono.api.kind import Kind
from unisono.api.kinds import NODES, POD_GROUPS, PODS, QUEUES
from unisono.api.times import rfc3339
from unisono.cluster.state import ClusterState
from unisono.engine import run
from unisono.engine.config.model import PluginConfig, SchedulerConfig
from unisono.engine.config_file.reader import default_config, load_config
from unisono.engine.contract.accelerated import AcceleratedHooks
from unisono.engine.contract.plugin import Plugin
from unisono.engine.decisions import Decisions
from unisono.errors import UnisonoError

__all__ = ["Cycle", "World", "WrongPlugin", "check", "drawn_world"]

NAMESPACE = "default"
START = 1_700_000_000.0
MOST_CYCLES = 4
"""Cycles of a drawn world."""
SMALL = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""
"""A configuration whose own plug-ins have all short cuts, so that those of another plug-in are used."""

_ACTIONS = ("enqueue", "allocate", "preempt", "reclaim", "backfill")
_PROMISES = ("pure", "by_shape", "static_by_kin", "moved_by_evictions", "permits_only")
_SHORT_CUTS = tuple(
    name for name in vars(AcceleratedHooks) if not name.startswith("_") and callable(getattr(Plugin, name))
)


class WrongPlugin(UnisonoError, AssertionError):
    """A plug-in failed, or broke a promise; the message names hook and world."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one cycle did.

    Attributes:
        placed: node by pod, of pods that got one.
        waiting: by job, why it waits.
        evicted: pods that must leave.
        decisions: all of it.
    """

    placed: Mapping[str, str]
    waiting: Mapping[str, str]
    evicted: Sequence[str]
    decisions: Decisions


class World:
    """Nodes, queues and jobs; each method answers the world, so that calls may follow each other.

    Amounts go by short name: ``cpu=4, memory="8Gi", gpus=1``; others by ``resources={"example.com/x": 2}``.
    """

    def __init__(self) -> None:
        self._state = ClusterState()
        self._pods: dict[str, dict[str, Any]] = {}
        self._groups: dict[str, dict[str, Any]] = {}
        self._lines: list[str] = []
        self._made = 0
        self._cycles = 0
        self.queue("default")
        self._lines.clear()

    def __str__(self) -> str:
        """The calls that made it, a line each."""
        return "\n".join(["World()", *self._lines])

    def node(
        self,
        name: str,
        *,
        cpu: float = 8,
        memory: str = "32Gi",
        gpus: int = 0,
        resources: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        **spec: Any,
    ) -> Self:
        """Add a node; ``spec`` are further fields of its spec."""
        self._told(
            "node", name, cpu=cpu, memory=memory, gpus=gpus, resources=resources, labels=labels, taints=taints, **spec
        )
        amounts = {**_amounts(cpu, memory, gpus, resources), "pods": "110"}
        self._put(
            NODES,
            {
                "metadata": {"name": name, "uid": f"node-{name}", "labels": {HOSTNAME: name, **(labels or {})}},
                "spec": {**spec, "taints": [dict(taint) for taint in taints]},
                "status": {
                    "allocatable": amounts,
                    "capacity": amounts,
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
        )
        return self

    def queue(self, name: str, **spec: Any) -> Self:
        """Add or change a queue; ``spec`` are fields such as ``weight=2, capability={"cpu": 8}``."""
        self._told("queue", name, **spec)
        texts = {
            key: {each: str(amount) for each, amount in value.items()} if isinstance(value, Mapping) else value
            for key, value in spec.items()
        }
        meta = {"name": name, "uid": f"queue-{name}", "creationTimestamp": rfc3339(START)}
        self._put(QUEUES, {"metadata": meta, "spec": {"weight": 1, **texts}, "status": {"state": "Open"}})
        return self

    def job(
        self,
        name: str,
        *,
        pods: int = 1,
        needed: int | None = None,
        cpu: float = 1,
        memory: str = "",
        gpus: int = 0,
        resources: Mapping[str, Any] | None = None,
        queue: str = "default",
        priority: int = 0,
        selector: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        on: Sequence[str] = (),
        **spec: Any,
    ) -> Self:
        """Add a job of equal pods ``NAME-0``, ``NAME-1``, ...

        Args:
            name: of the job.
            pods: how many.
            needed: how many start together or not at all; None for all.
            cpu: cores that a pod requests.
            memory: that a pod requests.
            gpus: cards that a pod requests.
            resources: further requests of a pod.
            queue: of the job.
            priority: of its pods.
            selector: node selector of its pods.
            labels: of its pods.
            annotations: of its pods.
            on: nodes on which the first of its pods run already.
            spec: further fields of the pods' spec.
        """
        self._told(
            "job",
            name,
            pods=pods,
            needed=needed,
            cpu=cpu,
            memory=memory,
            gpus=gpus,
            resources=resources,
            queue=queue,
            priority=priority,
            selector=selector,
            labels=labels,
            annotations=annotations,
            on=on,
            **spec,
        )
        self._made += 1
        made = rfc3339(START + self._made)
        meta = {"namespace": NAMESPACE, "creationTimestamp": made}
        self._groups[name] = {
            "metadata": {**meta, "name": name, "uid": f"group-{name}"},
            "spec": {"minMember": pods if needed is None else needed, "queue": queue},
            "status": {"phase": "Running" if on else "Pending"},
        }
        self._put(POD_GROUPS, self._groups[name])
        amounts = _amounts(cpu, memory, gpus, resources)
        for number in range(pods):
            node = on[number] if number < len(on) else None
            self._put_pod(
                {
                    "metadata": {
                        **meta,
                        "name": f"{name}-{number}",
                        "uid": f"pod-{name}-{number}",
                        "labels": dict(labels or {}),
                        "annotations": {GROUP_NAME: name, **(annotations or {})},
                    },
                    "spec": {
                        "schedulerName": "volcano",
                        "priority": priority,
                        "nodeSelector": dict(selector or {}),
                        "containers": [{"name": "main", "resources": {"requests": amounts}}],
                        **spec,
                        **({"nodeName": node} if node else {}),
                    },
                    "status": {"phase": "Running" if node else "Pending"},
                }
            )
        return self

    def cycle(self, *plugins: type[Plugin], arguments: Mapping[str, Any] | None = None, config: str = "") -> Cycle:
        """Decide once and carry it out: placed pods run, evicted ones are gone, admitted jobs are so in later cycles.

        Args:
            plugins: asked beside those of the configuration, in its last tier; none for the configuration alone.
            arguments: of these plug-ins.
            config: a scheduler configuration as text; empty for the default.

        Raises:
            WrongPlugin: a plug-in raised, answered what it must not, or a decision broke a rule of the engine.
        """
        used = load_config(config) if config else default_config()
        return self._decide(_with(used, plugins, arguments), {kind.name: kind for kind in plugins})

    def _decide(self, config: SchedulerConfig, plugins: Mapping[str, type[Plugin]], *, verdicts: bool = True) -> Cycle:
        # Further ones than the first come later, so that what is due by time is seen.
        now = START + 1000.0 + self._cycles
        self._cycles += 1
        decisions = run(self._state.snapshot(), config, now, plugins=plugins, advice=False, verdicts=verdicts)
        for failure in decisions.plugin_failures:
            raise WrongPlugin(f"{failure}, in this world:\n{self}")
        if decisions.plugins_off or decisions.violations:
            raise WrongPlugin(f"{[*decisions.plugins_off, *decisions.violations]}, in this world:\n{self}")
        for update in decisions.pod_groups:
            group = self._groups[update.key.partition("/")[2]]
            group["status"] = {**group["status"], "phase": update.phase}
            self._put(POD_GROUPS, group)
        for eviction in decisions.evictions:
            self._state.apply("DELETED", PODS, decode(PODS, self._pods.pop(eviction.pod)).obj)
        for bind in decisions.binds:
            pod = self._pods[bind.pod]
            pod["spec"] = {**pod["spec"], "nodeName": bind.node}
            pod["status"] = {"phase": "Running"}
            self._put_pod(pod)
        return Cycle(
            {bind.pod: bind.node for bind in decisions.binds},
            {key.partition("/")[2]: verdict.message for key, verdict in decisions.verdicts.items()},
            sorted(eviction.pod for eviction in decisions.evictions),
            decisions,
        )

    def _told(self, call: str, name: str, **given: Any) -> None:
        words = [repr(name), *(f"{key}={value!r}" for key, value in given.items() if value)]
        self._lines.append(f".{call}({', '.join(words)})")

    def _put_pod(self, value: dict[str, Any]) -> None:
        self._pods[value["metadata"]["name"]] = value
        self._put(PODS, value)

    def _put(self, kind: Kind[Any], value: dict[str, Any]) -> None:
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **value}
        self._state.apply("MODIFIED", kind, decode(kind, whole).obj)


def drawn_world(seed: int, labels: Mapping[str, Sequence[str]] | None = None) -> World:
    """A small world: nodes, queues, jobs that run and jobs that wait for more than there is.

    Args:
        seed: the same gives the same.
        labels: of nodes, each with the values that it may have; a node may lack it. Some jobs select one.
    """
    draw, world = random.Random(seed), World()  # noqa: S311  # nosec B311 - draws examples, no secrets
    nodes = [f"n{number}" for number in range(draw.randint(1, 5))]
    label_values = {name: list(values) for name, values in (labels or {}).items()}
    for name in nodes:
        own = {key: draw.choice(values) for key, values in label_values.items() if draw.random() < 0.7}
        world.node(name, cpu=draw.choice((2, 4, 8)), gpus=draw.choice((0, 0, 2)), labels=own)
    queues = ["default", *(f"q{number}" for number in range(draw.randint(0, 2)))]
    for name in queues[1:]:
        capability = {"capability": {"cpu": draw.randint(2, 8)}} if draw.random() < 0.3 else {}
        world.queue(name, weight=draw.randint(1, 3), **capability)
    # Few cores are taken: on any node there is room for those that run.
    for number, node in enumerate(nodes):
        if draw.random() < 0.5:
            world.job(f"r{number}", queue=draw.choice(queues), on=[node], priority=draw.choice((0, 0, 5)))
    for number in range(draw.randint(1, 6)):
        pods = draw.randint(1, 4)
        selector = {}
        if label_values and draw.random() < 0.3:
            key = draw.choice(sorted(label_values))
            selector = {key: draw.choice(label_values[key])}
        world.job(
            f"j{number}",
            pods=pods,
            needed=draw.randint(1, pods),
            cpu=draw.choice((1, 1, 2)),
            gpus=draw.choice((0, 0, 0, 1)),
            queue=draw.choice(queues),
            priority=draw.choice((0, 0, 0, 10)),
            selector=selector,
        )
    return world


def check(
    plugin: type[Plugin],
    *,
    arguments: Mapping[str, Any] | None = None,
    worlds: int = 20,
    seed: int = 0,
    labels: Mapping[str, Sequence[str]] | None = None,
    draw: Callable[[int], World] | None = None,
    config: str = "",
) -> None:
    """Hold a plug-in against itself in drawn worlds, some cycles each.

    - It does not fail.
    - The same world gives the same decisions.
    - Without its short cuts and promises (``headroom``, ``filter_at``, ``pure``, ...) the decisions are the same.

    Args:
        plugin: the class.
        arguments: its arguments.
        worlds: how many.
        seed: of the first; the next ones follow.
        labels: of nodes in `drawn_world`, as the plug-in looks at them.
        draw: another way to draw a world of a seed; it must give the same for the same seed.
        config: a scheduler configuration as text; empty for the default with actions that evict, and for a small one.

    Raises:
        WrongPlugin: it does not hold; names the seed, the world and the short cut that makes the difference.
    """
    configs = [load_config(config)] if config else [replace(default_config(), actions=_ACTIONS), load_config(SMALL)]
    used = [_with(each, (plugin,), arguments) for each in configs]
    make = draw or (lambda number: drawn_world(number, labels))

    def outcomes(number: int, kind: type[Plugin]) -> list[dict[str, Any]]:
        results = []
        for each in used:
            world = make(number)
            for _ in range(MOST_CYCLES):
                results.append(_outcome(world._decide(each, {plugin.name: kind}, verdicts=False).decisions))
        return results

    for number in range(seed, seed + worlds):
        baseline = outcomes(number, plugin)
        if outcomes(number, plugin) != baseline:
            raise WrongPlugin(f"{plugin.name} decides otherwise in the same world, of seed {number}:\n{make(number)}")
        if outcomes(number, _plain(plugin, (*_SHORT_CUTS, *_PROMISES))) == baseline:
            continue
        guilty = [
            name
            for name in (*_SHORT_CUTS, *_PROMISES)
            if getattr(plugin, name) is not getattr(Plugin, name)
            and outcomes(number, _plain(plugin, (name,))) != baseline
        ]
        named = ", ".join(guilty) or "its short cuts together"
        raise WrongPlugin(
            f"{plugin.name}: {named} changes decisions, with seed {number} in this world:\n{make(number)}"
        )


def _plain(plugin: type[Plugin], names: Sequence[str]) -> type[Plugin]:
    """The class without these short cuts and promises."""
    hidden = {name: False if name in _PROMISES else getattr(Plugin, name) for name in names}
    return type(plugin.__name__, (plugin,), {**hidden, "__module__": plugin.__module__})


def _outcome(decisions: Decisions) -> dict[str, Any]:
    """What is done; of several reasons why a job waits, texts may name another one."""
    return {
        "binds": decisions.binds,
        "evictions": decisions.evictions,
        "phases": [(update.key, update.phase) for update in decisions.pod_groups],
        "nominated": [(one.namespace, one.pod, one.nominated_node) for one in decisions.pod_conditions],
    }


def _with(
    config: SchedulerConfig, plugins: Sequence[type[Plugin]], arguments: Mapping[str, Any] | None
) -> SchedulerConfig:
    """The configuration with these plug-ins in its last tier, unless it names them."""
    present = {option.name for option in config.plugins}
    more = [PluginConfig(kind.name, arguments=arguments or {}) for kind in plugins if kind.name not in present]
    *first, last = config.tiers
    return replace(config, tiers=(*first, (*last, *more)))


def _amounts(cpu: float, memory: str, gpus: int, others: Mapping[str, Any] | None) -> dict[str, str]:
    amounts = {"cpu": f"{cpu:g}"}
    if memory:
        amounts["memory"] = memory
    if gpus:
        amounts[NVIDIA_GPU] = str(gpus)
    return {**amounts, **{name: str(amount) for name, amount in (others or {}).items()}}
