"""Hooks of plug-ins about queues and jobs: who is served first, who is admitted, and how much a queue may hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unisono.engine.answers import Key, Refusal, Vote

if TYPE_CHECKING:
    from unisono.cluster.podclass import PodClass
    from unisono.cluster.records import Task
    from unisono.engine.session.job_state import JobState, QueueState


class QueueHooks:
    """Orders, gates and quotas."""

    # ---- orders

    def queue_key(self, queue: QueueState) -> Key:
        """Lower is served first. Read again each time a queue is put back, so a share may be used."""
        raise NotImplementedError

    def job_key(self, job: JobState) -> Key:
        """Lower is served first. Read again each time a job is put back.

        A gang that lost a member (``job.broken``) should come before new ones: else it may starve below its minimum.
        """
        raise NotImplementedError

    def task_key(self, task: Task) -> Key:
        """Lower is placed first; must not change within a session."""
        raise NotImplementedError

    # ---- gates and states

    def enqueueable(self, job: JobState) -> Vote | Refusal:
        """May a Pending job with minResources become Inqueue? Jobs without minResources are not asked about."""
        raise NotImplementedError

    def enqueued(self, job: JobState) -> None:
        """``job`` (with minResources) has just become Inqueue: reserve what it was promised."""
        raise NotImplementedError

    def valid(self, job: JobState) -> Refusal | None:
        """None when the job can be scheduled at all."""
        raise NotImplementedError

    def ready(self, job: JobState) -> bool:
        """Whether enough tasks of the job hold a place for its binds to leave."""
        raise NotImplementedError

    def pipelined(self, job: JobState) -> Vote | Refusal:
        """Whether allocated and pipelined tasks together would make the job ready."""
        raise NotImplementedError

    def starving(self, job: JobState) -> bool:
        """Whether the job may take resources from others."""
        raise NotImplementedError

    # ---- quota

    def overused(self, queue: QueueState) -> Refusal | None:
        """A refusal drops the queue for the rest of allocate (and reclaim)."""
        raise NotImplementedError

    def allocatable(self, queue: QueueState, pod_class: PodClass) -> Refusal | None:
        """May one more task of this class be placed for the queue?"""
        raise NotImplementedError

    def preemptive(self, queue: QueueState, classes: Sequence[PodClass]) -> Refusal | None:
        """May the queue take resources from others for tasks of these classes (one entry per task)?"""
        raise NotImplementedError
