"""A view of the cluster state for one cycle."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from unisono.api.annotations import TIER
from unisono.api.node_usage import NodeUsage
from unisono.cluster.affinity_index import AffinityIndex
from unisono.cluster.calendar import CalendarWords
from unisono.cluster.catalogue import Catalogue
from unisono.cluster.hypertree import HyperNodeTree
from unisono.cluster.interning import PodClasses, SharedObjects
from unisono.cluster.limits import Budget, Quota
from unisono.cluster.nodes import Codes, NodeTable
from unisono.cluster.podclass import PodClass
from unisono.cluster.promises import Promise
from unisono.cluster.recent import EvictionLog, RunTimes, Setback
from unisono.cluster.records import Job, Queue, Task
from unisono.cluster.resources import ResourceRegistry
from unisono.cluster.shapes import Shapes
from unisono.cluster.waiting_jobs import WaitingJobs

_PREFIX: Final = len(TIER)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Valid until the next ``ClusterState.apply``; holds references, no copies. Readers must not change anything.

    Attributes:
        version: of the state at that moment.
        registry: resource names.
        nodes: settled node table; all arrays have as many rows as the registry.
        classes: the pod classes, vectors padded to the registry.
        next_class: a number above the ids of all pod classes.
        tasks: all pods that are not finished, and finished ones of known jobs, by key.
        tasks_on: pods by node name and key.
        jobs: PodGroups by key, with ``known`` False where only pods name it.
        active: keys of jobs that a cycle has to look at: with pending tasks, not yet running, or changed since.
        queues: queues by name, with ``known`` False where only PodGroups name it.
        priorities: value by PriorityClass name.
        default_priority: value of the global default PriorityClass, else 0.
        port_holders: by node name: pods with host ports there, by key.
        affinity_index: which pods stand where, for affinity and spread.
        quotas, budgets: ResourceQuotas and PodDisruptionBudgets by namespace and name.
        node_usage: measured load by node name, as far as a source of metrics told it.
        evictions: what was evicted lately.
        waiting: the jobs of ``active`` by kin; None where that is not known.
        shapes: numbers the kins of jobs that are not the state's.
        setbacks: jobs whose binds failed lately, by key.
        promises: room that is kept on nodes for pods which are to come.
        run_times: how long jobs of one kind have run.
        hyper_nodes: the tree of HyperNodes over the nodes.
        catalogue: volumes, device claims and their classes, reservations of nodes.
        calendar: who names a reservation of nodes, and limits run times.
        licensed: keys of jobs that hold floating resources as a whole, or ask for them.
        memo: what may be kept from cycle to cycle, by class; part of no state.
    """

    version: int
    registry: ResourceRegistry
    nodes: NodeTable
    classes: PodClasses
    next_class: int
    tasks: Mapping[str, Task]
    tasks_on: Mapping[str, Mapping[str, Task]]
    jobs: Mapping[str, Job]
    active: Collection[str]
    queues: Mapping[str, Queue]
    priorities: Mapping[str, int]
    default_priority: int
    port_holders: Mapping[str, Mapping[str, PodClass]]
    affinity_index: AffinityIndex
    catalogue: Catalogue
    memo: SharedObjects
    hyper_nodes: HyperNodeTree
    quotas: Mapping[str, Mapping[str, Quota]] = field(default_factory=dict)
    budgets: Mapping[str, Mapping[str, Budget]] = field(default_factory=dict)
    node_usage: Mapping[str, NodeUsage] = field(default_factory=dict)
    evictions: EvictionLog = field(default_factory=EvictionLog)
    run_times: RunTimes = field(default_factory=RunTimes)
    setbacks: Mapping[str, Setback] = field(default_factory=dict)
    promises: Mapping[str, Promise] = field(default_factory=dict)
    waiting: WaitingJobs | None = None
    shapes: Shapes = field(default_factory=Shapes)
    calendar: CalendarWords = field(default_factory=CalendarWords)
    licensed: Collection[str] = ()

    def by_shape(self) -> Iterator[tuple[Job, Collection[str]]]:
        """The jobs of ``active``: one of each shape, with the keys of all that share it."""
        groups = ((key,) for key in self.active) if self.waiting is None else self.waiting.by_shape()
        for keys in groups:
            job = self.jobs.get(next(iter(keys)))
            if job is not None:
                yield job, keys

    # ---- topology keys: labels of nodes, and tiers of HyperNodes as if each were a label

    def domains_of(self, key: str) -> Codes:
        """``[N]`` codes of the domains of a topology key, -1 for nodes that are in none. Do not change it."""
        return self.hyper_nodes.places(key[_PREFIX:]) if key.startswith(TIER) else self.nodes.label_column(key)

    def domain_count(self, key: str) -> int:
        """A number above all codes of a topology key."""
        return len(self.hyper_nodes) if key.startswith(TIER) else self.nodes.label_domains(key)

    def domain_names(self, key: str) -> Sequence[str]:
        """Domains of a topology key by code: values of the label, or names of HyperNodes."""
        return self.hyper_nodes.names if key.startswith(TIER) else self.nodes.label_values(key)

    def topology_keys(self) -> list[str]:
        """Topology keys that some node has a value of."""
        tiers = (name for name in self.hyper_nodes.names_of_tiers() if "/" not in name)
        return [*self.nodes.label_keys(), *(f"{TIER}{name}" for name in tiers)]

    def priority_of(self, job: Job) -> int:
        """Value of the job's PriorityClass, else of the global default, else 0."""
        return self.priorities.get(job.priority_class, self.default_priority)
