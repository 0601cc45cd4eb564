"""A plane around the engine: pods run when bound, evicted pods end and are made again, phases are written back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from support.build import START, cluster, flatten, kind_of, pod
from unisono import engine
from unisono.api.base import Object
from unisono.api.core import Pod
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.api.times import rfc3339
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.decisions import Decisions

PLUGINS = """
- plugins:
  - name: priority
  - name: gang{gang}
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf{drf}
  - name: predicates
  - name: {quota}
  - name: nodeorder
  - name: binpack
"""
OFF = "\n    enablePreemptable: false"


def settings(
    actions: str, *, gang: str = "", drf: str = "", more: str = "", quota: str = "proportion"
) -> SchedulerConfig:
    """Volcano's two tiers; ``gang`` and ``drf`` are further lines of those plug-ins."""
    return load_config(f'actions: "{actions}"\ntiers:{PLUGINS.format(gang=gang, drf=drf, quota=quota)}{more}')


def with_guard(actions: str, arguments: str, first: Iterable[str], second: Iterable[str]) -> SchedulerConfig:
    """Two tiers of these plug-ins, with eviction-guard at the end of the first.

    Args:
        actions: of each cycle.
        arguments: of eviction-guard, as YAML: a mapping on one line, or lines that are indented by six spaces.
        first: further plug-ins of the first tier.
        second: plug-ins of the second tier.

    """

    def lines(names: Iterable[str]) -> str:
        return "".join(f"\n  - name: {name}{OFF if name in ('gang', 'drf') else ''}" for name in names)

    guard = f"\n  - name: eviction-guard\n    arguments: {arguments}"
    return load_config(f'actions: "{actions}"\ntiers:\n- plugins:{lines(first)}{guard}\n- plugins:{lines(second)}\n')


RECLAIM = settings("enqueue, allocate, reclaim, backfill", gang=OFF, drf=OFF)
"""The default configuration with reclaim."""
PREEMPT = settings("enqueue, allocate, preempt, backfill", gang=OFF, drf=OFF)
BOTH = settings("enqueue, allocate, preempt, reclaim, backfill")


class Plane:
    """Runs cycles and carries their decisions out.

    Attributes:
        now: time of the next cycle; it stands still unless a test moves it.
        grace: cycles that an evicted pod takes to end; it is made again at once when it has.
        evicted: victims' jobs, per cycle.

    """

    def __init__(self, config: SchedulerConfig, *things: Any, grace: int = 1) -> None:
        self.config, self.grace = config, grace
        self.now = START + 1000.0
        self.objects: dict[tuple[str, str], Object] = {}
        self.state = cluster()
        for thing in flatten(things):
            self.put(deepcopy(thing))
        self.leaving: dict[tuple[str, str], int] = {}
        self.evicted: list[list[str]] = []
        self.made = 0

    def put(self, thing: Object) -> None:
        kind = kind_of(thing)
        self.objects[kind.kind, thing.key] = thing
        self.state.apply("MODIFIED", kind, thing)

    def drop(self, key: str) -> None:
        self.state.apply("DELETED", PODS, self.objects.pop(("Pod", key)))

    def pods(self) -> list[Pod]:
        return [thing for thing in self.objects.values() if isinstance(thing, Pod)]

    def running(self) -> dict[str, int]:
        """Pods that hold a node and are not leaving, by job."""
        held = (p for p in self.pods() if p.spec.node_name and not p.metadata.deletion_timestamp)
        return dict(Counter(job_of(p) for p in held))

    def cycle(self) -> Decisions:
        """End pods whose grace is over, decide, carry out."""
        for key in [key for key, left in self.leaving.items() if left <= 0]:
            del self.leaving[key]
            self._make_again(key[1])
        self.leaving = {key: left - 1 for key, left in self.leaving.items()}
        # what would start those that wait is asked elsewhere, and costs several cycles each time
        decisions = engine.run(self.state.snapshot(), self.config, self.now, advice=False)
        assert decisions.violations == []
        self._carry_out(decisions)
        return decisions

    def settle(self, most: int = 40) -> Decisions:
        """Cycles until one decides nothing and nobody is leaving."""
        for _ in range(most):
            decisions = self.cycle()
            if not (decisions.binds or decisions.evictions or decisions.pipelined or self.leaving):
                return decisions
        raise AssertionError(f"not stable after {most} cycles; evicted {self.evicted}")

    def _carry_out(self, decisions: Decisions) -> None:
        jobs = []
        for eviction in decisions.evictions:
            victim = self.objects["Pod", f"{eviction.namespace}/{eviction.pod}"]
            assert isinstance(victim, Pod) and not victim.metadata.deletion_timestamp
            jobs.append(job_of(victim))
            self.state.release(victim.key, self.now)
            victim.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
            self.leaving["Pod", victim.key] = self.grace
            self.put(victim)
        self.evicted.append(sorted(jobs))
        for told in decisions.pod_conditions:
            if told.nominated_node:
                waiting = self.objects["Pod", f"{told.namespace}/{told.pod}"]
                assert isinstance(waiting, Pod)
                waiting.status.nominated_node_name = told.nominated_node
                self.put(waiting)
        for bind in decisions.binds:
            bound = self.objects["Pod", f"{bind.namespace}/{bind.pod}"]
            assert isinstance(bound, Pod)
            bound.spec.node_name, bound.status.phase = bind.node, "Running"
            bound.status.start_time = rfc3339(self.now)
            self.put(bound)
        for update in decisions.pod_groups:
            group = self.objects["PodGroup", update.key]
            assert isinstance(group, PodGroup)
            group.status.phase = update.phase
            self.state.apply("MODIFIED", POD_GROUPS, group)

    def _make_again(self, key: str) -> None:
        old = self.objects["Pod", key]
        assert isinstance(old, Pod)
        self.drop(key)
        self.made += 1
        old.metadata.uid = f"{old.metadata.uid}-again"
        old.metadata.deletion_timestamp = None
        old.spec.node_name, old.status.phase, old.status.nominated_node_name = None, "Pending", None
        old.status.start_time = None
        self.put(old)


def job_of(thing: Pod) -> str:
    return (thing.metadata.annotations or {})["scheduling.k8s.io/group-name"]


def running_pods(job: str, nodes: Iterable[str], **options: Any) -> list[Pod]:
    """Pods ``JOB-w-0`` ... of a job, one on each of ``nodes``."""
    return [pod(f"{job}-w-{i}", job, node=name, **({"cpu": 1} | options)) for i, name in enumerate(nodes)]
