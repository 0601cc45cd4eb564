"""A snapshot with some things different; the one that it was made from is left alone.

Records are copied when they are first changed, and sums over a job and its queue are recomputed from its pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from unisono.api.base import Object
from unisono.api.core import PersistentVolumeClaim, PodSpec, ResourceClaim, ResourceSlice
from unisono.api.licenses import PREFIX
from unisono.cluster.affinity_index import AffinityIndex
from unisono.cluster.budgets import Budgets
from unisono.cluster.catalogue import Catalogue, ObjectsByKey
from unisono.cluster.floating import NO_FLOATING, Floating
from unisono.cluster.gang_affinity import terms_of_task
from unisono.cluster.interning import SharedObjects
from unisono.cluster.job_licenses import holds_licenses
from unisono.cluster.jobs import JobBook, shares_of
from unisono.cluster.limits import Quota
from unisono.cluster.nodes import NodeFacts, NodeTable
from unisono.cluster.podclass import UNTIED, PodClass, PodRelations
from unisono.cluster.records import JOB_SUMS, Job, Queue, Task
from unisono.cluster.resources import fitted
from unisono.cluster.selectors import NO_TERMS, PodTerms
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.status import ON_NODE_STATES, TaskStatus
from unisono.cluster.waiting_jobs import WaitingJobs
from unisono.engine.changes import OfPods
from unisono.engine.session.book import Promises, remember_by_key
from unisono.errors import EngineError

Move = tuple[PodClass, str, int]
"""A pod of a class came to a node (1) or left it (-1)."""

_KEPT = 256


class _Edited(dict[tuple[int, str], tuple[PodSpec, PodClass]]):
    """Specs that were edited, each with its class without ties and notes, by the spec's identity and the change.

    Many jobs of one spec are asked about in each cycle.
    """


class Edit:
    """Changes to one snapshot.

    Attributes:
        woken: jobs that have pods to be placed again, known once the snapshot is made.
        moves: pods that came to nodes or left them: what `unisono.engine.session.domains.Domains` has to follow.
    """

    def __init__(self, snapshot: Snapshot, moves: Iterable[Move] = ()) -> None:
        self.origin = snapshot
        self.moves: list[Move] = list(moves)
        self.woken: list[str] = []
        self._asked = ""
        self._jobs: dict[str, Job] = {}
        self._before: dict[str, Job] = {}
        self._tasks: dict[str, Task | None] = {}
        self._queues: dict[str, Queue] = {}
        self._occupied: NodeTable | None = None
        self._facts: dict[str, NodeFacts] = {}
        self._joined: list[Task] = []
        self._classes: dict[tuple[int, str], PodClass] = {}
        self._quotas: dict[str, dict[str, Quota]] = {}
        self._floating: dict[int, Floating] = {}
        self._catalogue: Catalogue | None = None

    # ---- records

    def quota(self, quota: Quota) -> None:
        """Put another ResourceQuota in the place of the one of its name."""
        changed = self._quotas.setdefault(quota.namespace, dict(self.origin.quotas.get(quota.namespace, {})))
        changed[quota.name] = quota

    def quotas(self, namespace: str) -> Mapping[str, Quota]:
        """The ResourceQuotas of a namespace as they are now, by name."""
        return self._quotas.get(namespace) or self.origin.quotas.get(namespace) or {}

    def floating(self, name: str, amount: int) -> None:
        """Let there be so many (engine units) of a floating resource; of one that nobody asks for nothing changes."""
        row = self.origin.registry.find(f"{PREFIX}{name}")
        if row is not None:
            current = self.origin.nodes.floating.get(row, NO_FLOATING)
            self._floating[row] = replace(
                current, name=name, amount=amount, problem="" if current is NO_FLOATING else current.problem
            )

    def budget(self, name: str, amounts: Mapping[str, float]) -> None:
        """Let a budget have other amounts; what was used stays."""
        if self._catalogue is None:
            self._catalogue = copy(self.origin.catalogue)
        original, changed = self._catalogue.budgets, Budgets()
        changed.update(original)
        changed.tallies, changed.version = dict(original.tallies), original.version
        purse = original[name]
        changed.set(replace(purse, amounts={**purse.amounts, **amounts}), original.tallies[name])
        self._catalogue.budgets = changed

    def claim(self, claim: PersistentVolumeClaim | ResourceClaim) -> None:
        """Put another claim in the place of the one of its name."""
        self._catalogued("volume_claims" if isinstance(claim, PersistentVolumeClaim) else "device_claims", [claim])

    def _catalogued(self, shelf: str, objects: Iterable[Object]) -> None:
        """Put objects beside those of their kind that are there, or in the place of those of their names."""
        if self._catalogue is None:
            self._catalogue = copy(self.origin.catalogue)
        changed = ObjectsByKey[Object]()
        changed.update(getattr(self._catalogue, shelf))
        changed.update({one.key: one for one in objects})
        setattr(self._catalogue, shelf, changed)

    def job(self, key: str) -> Job:
        """A job's record, to be changed."""
        record = self._jobs.get(key)
        if record is None:
            self._before[key] = before = self.origin.jobs[key]
            record = self._jobs[key] = copy(before)
            record.tasks = dict(before.tasks)
            remember_by_key(self.origin, before)
        return record

    def ask(self, key: str) -> None:
        """Let a job count as like no other, so that what becomes of it is found out by itself."""
        if key in self.origin.jobs:
            self.job(key)
            self._asked = key

    def move(self, key: str, queue: str) -> None:
        """Let a job name another queue."""
        self.job(key).queue = queue

    def queue(self, name: str) -> Queue:
        """A queue's record, to be changed; new when there was none."""
        record = self._queues.get(name)
        if record is None:
            original = self.origin.queues.get(name)
            record = copy(original) if original is not None else Queue(name, len(self.origin.registry))
            record.take_sums(record.sums.copy())
            self._queues[name] = record
        return record

    def task(self, key: str) -> Task:
        """A pod's record, to be changed by `put`."""
        changed = self._tasks.get(key)
        return copy(changed if changed is not None else self.origin.tasks[key])

    def put(self, task: Task) -> None:
        """Take over a pod, new or changed."""
        self.drop(task.key)
        self._tasks[task.key] = task
        if task.job:
            self.job(task.job).tasks[task.key] = task
        self._occupy(task, 1)

    def drop(self, key: str) -> None:
        """A pod is gone."""
        old = self._tasks[key] if key in self._tasks else self.origin.tasks.get(key)
        if old is None:
            return
        if old.job in self.origin.jobs:
            self.job(old.job).tasks.pop(key, None)
        self._tasks[key] = None
        self._occupy(old, -1)

    def _occupy(self, task: Task, sign: int) -> None:
        if not task.node or task.status not in ON_NODE_STATES:
            return
        if self._occupied is None:
            self._occupied = self.origin.nodes.variant()
        releasing = task.status is TaskStatus.RELEASING
        self._occupied.occupy(task.node, task.pod_class, sign, releasing=releasing, outside=not task.queued)
        if task.pod_class.base is not task.pod_class:
            self.moves.append((task.pod_class, task.node, sign))

    # ---- nodes and classes

    def facts(self, name: str) -> NodeFacts:
        """A node's facts, to be changed and taken over by `node`."""
        table = self.origin.nodes
        return copy(self._facts.get(name) or table.facts[table.index[name]])

    def node(self, facts: NodeFacts) -> None:
        """Add or change a node."""
        self._facts[facts.name] = facts

    def join(self, facts: NodeFacts, pods: Iterable[Task], slices: Iterable[ResourceSlice] = ()) -> None:
        """Add a node on which DaemonSets have put these pods, and which offers the devices of these slices."""
        self.node(facts)
        if each := list(slices):
            self._catalogued("device_slices", each)
        for task in pods:
            self._tasks[task.key] = task
            self._joined.append(task)

    def pod_class(self, old: PodClass, what: str, **changed: Any) -> PodClass:
        """A class like ``old`` but for some attributes; one for each ``what``.

        As with classes of the cluster its base is the same spec without ties: filters hold answers by base, and look
        for claims and rules about other pods only where a class is not its own base.
        """
        fresh = self._classes.get((old.id, what))
        if fresh is None:
            fresh = self._classes[old.id, what] = self._numbered(old)
            for name, value in changed.items():
                setattr(fresh, name, value)
            fresh.base = fresh
            if fresh.ties != UNTIED:
                fresh.base = self._classes[fresh.id, "alone"] = self._numbered(fresh, UNTIED)
                fresh.base.base = fresh.base
        return fresh

    def edited_class(self, task: Task, change: OfPods, what: str) -> PodClass:
        """The class of a pod whose spec is changed, one for each ``what``; its claims are the same."""
        old = task.pod_class
        edited = self._classes.get((old.id, what))
        if edited is not None:
            return edited
        kept = self.origin.memo.of(_Edited, _Edited)
        _, like = kept.get((id(old.spec), what)) or (None, None)
        if like is None:
            spec = msgspec.to_builtins(old.spec)
            change.edit(spec)
            try:
                like = PodClass(old.id, msgspec.convert(spec, PodSpec), self.origin.registry)
            except ValueError as error:  # more than a pod may ask of the scheduler
                raise EngineError(str(error)) from error
            kept[id(old.spec), what] = old.spec, like
            if len(kept) > _KEPT:
                del kept[next(iter(kept))]
        like.lay_out(self.origin.registry)
        ties = old.ties
        if ties.terms != NO_TERMS:  # of the selectors that it has already
            ties = ties._replace(terms=self.terms_of(task, like.spec))
        return self.pod_class(like.refined(old.id, ties), what, notes=old.notes)

    def terms_of(self, task: Task, spec: PodSpec) -> PodTerms:
        """The terms of a pod, as it is in the trial, with a spec."""
        job = self.origin.jobs.get(task.job)
        return terms_of_task(task, spec, job.annotations if job is not None else None, self.origin.classes.selectors)

    def _numbered(self, like: PodClass, ties: PodRelations | None = None) -> PodClass:
        number = self.origin.next_class + len(self._classes)
        fresh = like.refined(number, like.ties if ties is None else ties)
        fresh.kin = -1 - number  # of no other
        return fresh

    # ---- the result

    def snapshot(self) -> Snapshot:
        """The changed snapshot; everything that was not touched is shared."""
        origin = self.origin
        self._count_jobs()
        nodes = self._occupied or origin.nodes
        if self._facts:
            nodes = nodes.variant(self._facts)
            for task in self._joined:
                nodes.occupy(task.node, task.pod_class, 1, releasing=False, outside=not task.queued)
        if any(each.tolerations for each in self._classes.values()):
            nodes = nodes.variant() if nodes is origin.nodes else nodes
            nodes.tolerance = nodes.tolerance.beside(self._classes.values())
        floating = self._floating_now()
        if floating != origin.nodes.floating:
            nodes = nodes.variant() if nodes is origin.nodes else nodes
            nodes.float(floating)
        tree = origin.hyper_nodes
        if len(nodes) != len(origin.nodes):
            moved = np.array([nodes.index[name] for name in origin.nodes.names], dtype=np.intp)
            fresh = {
                nodes.index[name]: facts.labels for name, facts in self._facts.items() if name not in origin.nodes.index
            }
            tree = tree.over(moved, fresh)
        tasks_on, holders = self._places()
        memo = SharedObjects(origin.memo, origin.memo)
        if self._facts or self._classes or self._catalogue:
            memo = SharedObjects(origin.memo)
            memo.put(origin.memo.of(Promises, Promises))
        active_keys = origin.active if isinstance(origin.active, frozenset | set) else set(origin.active)
        self.woken = [key for key, record in self._jobs.items() if record.pending and key not in active_keys]
        return replace(
            origin,
            version=origin.version + 1,  # what was tried in vain until now is not tried for the first time
            active=[*origin.active, *self.woken] if self.woken else origin.active,
            waiting=self._waiting(active_keys),
            nodes=nodes,
            next_class=origin.next_class + len(self._classes),
            tasks=_laid_over(origin.tasks, self._tasks),
            tasks_on=tasks_on,
            jobs=_laid_over(origin.jobs, self._jobs),
            queues=_laid_over(origin.queues, self._queues),
            port_holders=holders,
            memo=memo,
            hyper_nodes=tree,
            quotas={**origin.quotas, **self._quotas},
            catalogue=self._catalogue or origin.catalogue,
            affinity_index=self._affinity_index(),
        )

    def _floating_now(self) -> Mapping[int, Floating]:
        """Floating resources with what jobs hold of them as a whole after the changes."""
        by_row = {**self.origin.nodes.floating, **self._floating}
        for key, record in self._jobs.items():
            vector, change = record.license_vector, holds_licenses(record) - holds_licenses(self._before[key])
            if vector is None or not change:
                continue
            for row in np.flatnonzero(vector).tolist():
                one = by_row.get(row, NO_FLOATING)
                by_row[row] = replace(one, by_jobs=one.by_jobs + change * int(vector[row]))
        return by_row

    def _waiting(self, active: Collection[str]) -> WaitingJobs | None:
        waiting = self.origin.waiting
        changed = [*(key for key in self._jobs if key in active), *self.woken]
        return waiting.apart(changed) if waiting is not None and changed else waiting

    def _count_jobs(self) -> None:
        """Bring counts of the changed jobs and sums of their queues up to date."""
        width = len(self.origin.registry)
        for key, record in self._jobs.items():
            if record.tasks != self._before[key].tasks:
                self._recount(record)
            for name in JOB_SUMS:
                setattr(record, name, fitted(getattr(record, name), width))
            record.shape, record.derived = 0, {}  # what was found out of others of its shape is not of its pods
            record.kin = 0 if key == self._asked else self.origin.shapes.of(record)[1]
        if not self._jobs:
            return
        shares = shares_of(list(self._jobs.values()), width)
        shares_before = shares_of([self._before[key] for key in self._jobs], width)
        for at, (key, record) in enumerate(self._jobs.items()):
            before = self._before[key]
            if before.queue == record.queue:
                self.queue(record.queue).sums[:, :width] += shares[at] - shares_before[at]
                continue
            old, new = self.queue(before.queue), self.queue(record.queue)
            old.sums[:, :width] -= shares_before[at]
            new.sums[:, :width] += shares[at]
            old.jobs, new.jobs = old.jobs - {key}, new.jobs | {key}

    def _recount(self, record: Job) -> None:
        """Count the pods of a job, some of which have changed."""
        book = JobBook(self.origin.registry, "")
        counted = book.jobs[record.key] = Job(record.namespace, record.name, len(self.origin.registry))
        counted.known, counted.licenses, counted.license_vector = True, record.licenses, record.license_vector
        for task in record.tasks.values():
            book.add_task(task)
        book.licenses.count(counted)
        counts = ("counts", "role_counts", "pending", "pending_best_effort", "releasing_on_node")
        for name in (*counts, *JOB_SUMS):
            setattr(record, name, getattr(counted, name))

    def _affinity_index(self) -> AffinityIndex:
        """With the users of volume claims as they are now; the rest follows by `moves`."""
        index = self.origin.affinity_index
        moved = [(one, node, sign) for one, node, sign in self.moves if one.volumes]
        if not moved:
            return index
        index = copy(index)
        index.volume_users = {node: dict(claims) for node, claims in index.volume_users.items()}
        for pod_class, node, sign in moved:
            for claim in pod_class.volumes:
                users = index.volume_users.setdefault(node, {})
                users[claim] = users.get(claim, 0) + sign
        return index

    def _places(self) -> tuple[Mapping[str, Mapping[str, Task]], Mapping[str, Mapping[str, PodClass]]]:
        """Pods, and holders of host ports, by node."""
        origin = self.origin
        if self._occupied is None and not self._joined:
            return origin.tasks_on, origin.port_holders
        changed = [(key, origin.tasks.get(key), task) for key, task in self._tasks.items()]
        names = {task.node for _, *both in changed for task in both if task is not None and task.node}
        tasks_on = {name: dict(origin.tasks_on.get(name, {})) for name in names}
        holders = {name: dict(origin.port_holders.get(name, {})) for name in names}
        for key, old, task in changed:
            if old is not None and old.node:
                tasks_on[old.node].pop(key, None)
                holders[old.node].pop(key, None)
            if task is not None and task.node and task.status in ON_NODE_STATES:
                tasks_on[task.node][key] = task
                if task.pod_class.host_ports:
                    holders[task.node][key] = task.pod_class
        return {**origin.tasks_on, **tasks_on}, {**origin.port_holders, **holders}


def _laid_over(origin: Mapping[str, Any], changed: Mapping[str, Any]) -> Mapping[str, Any]:
    if not changed:
        return origin
    merged = dict(origin) | dict(changed)
    for key, value in changed.items():
        if value is None:
            del merged[key]
    return merged
