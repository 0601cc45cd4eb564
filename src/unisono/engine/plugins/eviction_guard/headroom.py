"""Room that jobs of low rank leave free, so that others can start without evicting them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from unisono.cluster.hypertree import Index
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import PODS, Matrix, Vector, fitted
from unisono.cluster.status import READY_STATES, count
from unisono.engine.answers import Refusal
from unisono.engine.session.amounts import UNLIMITED, named
from unisono.engine.session.followed_sums import FollowedSums
from unisono.engine.verdict import Cause

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session


class Headroom:
    """How many more pods of a job leave a share of each resource free on the usable nodes of one session.

    Free is what no pod holds and no pod was promised; what is being released counts as free. Four exceptions keep it
    from doing harm: a gang that fits only without the share need not leave it, a gang that lost members gets them back,
    a job that evicts others need not leave more than was free before, and a job that was promised places gets them.

    Args:
        session: of the cycle.
        share: 0 to 1, of jobs whose PriorityClass is not named.
        by_class: the same by name of PriorityClass.

    """

    def __init__(self, session: Session, share: float, by_class: Mapping[str, float]) -> None:
        self._session = session
        self._share, self._by_class = share, by_class
        self._sums: FollowedSums | None = None
        self._asked: JobState | None = None
        self._kept: Vector | None = None

    def room(self, job: JobState, pod_class: PodClass) -> int:
        """How many more pods of the class the job may place one after the other."""
        if job is not self._asked:
            self._asked, self._kept = job, None
        if not self._is_held(job):
            return UNLIMITED
        rows = self._rows(job, pod_class)
        if not len(rows):
            return UNLIMITED
        left = self._free()[rows] - self._kept_from(job)[rows]
        return max(int((left // fitted(pod_class.vector, self._session.rows)[rows]).min()), 0)

    def refusal(self, job: JobState, pod_class: PodClass) -> Refusal | None:
        """Why the job may place no further pod of the class."""
        if self.room(job, pod_class) > 0:
            return None
        registry, total = self._session.registry, self._session.usable_total
        free, kept = self._free(), self._kept_from(job)
        asked = fitted(pod_class.vector, len(free))
        rows = [row for row in self._rows(job, pod_class).tolist() if free[row] - kept[row] < asked[row]]
        text = f"{self._share_of(job):.1%} of the cluster stays free for others (eviction-guard.headroom)"
        need, have, limit = (named(registry, amounts.tolist(), rows) for amounts in (asked, total - free, total - kept))
        return Refusal(text, Cause.RESERVED, need, have, limit)

    def _share_of(self, job: JobState) -> float:
        return self._by_class.get(job.record.priority_class, self._share)

    def _is_held(self, job: JobState) -> bool:
        """Whether the job has to leave anything; a gang that had lost members holds places that are of no use."""
        if not self._share_of(job):
            return False
        return not 0 < count(job.record.counts, READY_STATES) < job.min_member

    def _rows(self, job: JobState, pod_class: PodClass) -> Index:
        """Rows of what the class requests that could be had, and of which something stays free."""
        rows = pod_class.rows[pod_class.rows != PODS]
        there = self._free()[rows] >= fitted(pod_class.vector, self._session.rows)[rows]
        return np.asarray(rows[there & (self._kept_from(job)[rows] > 0)], dtype=np.intp)

    def _kept_from(self, job: JobState) -> Vector:
        """``[R]`` what the job has to leave, worked out when it is first asked about in its turn.

        It is the share, but no more than what the gang leaves of an empty cluster, or than was free before its turn;
        nothing where an earlier cycle has promised it places.
        """
        if self._kept is None:
            total, record = self._session.usable_total, job.record
            if any(task.nominated_node for task in record.pending.values()):
                self._kept = np.zeros_like(total)
                return self._kept
            gang = fitted(record.request, len(total)) * job.min_member // max(job.size, 1)
            if job.min_resources is not None:
                gang = np.maximum(gang, fitted(job.min_resources, len(total)))
            share = (total * self._share_of(job)).astype(np.int64)
            self._kept = np.minimum(np.minimum(share, np.maximum(total - gang, 0)), self._free())
        return self._kept

    def _free(self) -> Vector:
        """``[R]`` what is free on usable nodes, or will be once those that leave are gone."""
        if self._sums is None:
            self._sums = FollowedSums(self._session, self._free_at)
        found: Vector = self._sums.follow().sums[:, self._session.snapshot.hyper_nodes.root]
        return found

    def _free_at(self, columns: Index) -> Matrix:
        nodes = self._session.nodes
        usable = nodes.table.ready[columns] & ~nodes.table.unschedulable[columns]
        free = nodes.allocatable[:, columns] - nodes.used[:, columns]
        free = free + nodes.releasing[:, columns] - nodes.pipelined[:, columns]
        return np.where(usable, np.maximum(free, 0), 0)
