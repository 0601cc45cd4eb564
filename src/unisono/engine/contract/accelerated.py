"""What makes decisions faster and never changes them: all of it can be left out, and is left out of a first reading.

Each hook here answers a question that a plain hook answers as well, about more at once or with a bound. The answer must
agree with that of the plain hook. `tests/engine/test_contract_accelerated.py` compares the decisions of the built-in
plug-ins with and without everything in this module.

====================  =====================================================  =========================================
hook                  stands for (and has the switch of)                     combination
====================  =====================================================  =========================================
admissible            as many calls of enqueueable                           minimum of the first tier of enqueueable
enqueued_alike        as many calls of enqueued                              all called, instead of enqueued
missing               calls of ready that would answer False                 maximum
underused             calls of overused that would answer None               minimum
headroom              calls of allocatable that would answer None            minimum
filter_at             filter, for one node                                   or
score_at              score, for one node                                    sum
line_score            batch_score, for groups of nodes                       only one may answer
victim_jobs           calls of victims that would name no task               and within a tier, or over the tiers
====================  =====================================================  =========================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from unisono.engine.answers import BoolArray, FloatArray, Parts, Purpose

if TYPE_CHECKING:
    from unisono.cluster.podclass import PodClass
    from unisono.cluster.records import Task
    from unisono.cluster.waiting_jobs import Alike
    from unisono.engine.session.job_state import JobState, QueueState
    from unisono.engine.session.node_view import NodeAt
    from unisono.engine.session.victims import VictimJobs

Index = npt.NDArray[np.intp]


class LineScore(Protocol):
    """Points of one class that all nodes of a line share.

    Attributes:
        codes: ``[N]`` the line of each node, fixed for the session.
    """

    codes: Index

    def points(self) -> FloatArray:
        """``[G]`` points of each line as things stand; exactly those that ``batch_score`` gives each node of it."""
        ...

    def steady(self, line: int) -> int:
        """How many more pods of the class on nodes of the line lower its points against no other line's.

        Asked right after `points`; 0 where nothing is known.
        """
        ...


class AcceleratedHooks:
    """Promises of a class, what it says of itself in a session, and short cuts.

    Attributes:
        by_shape: of a job, ``job_key``, ``valid``, ``ready``, ``missing``, ``pipelined`` and ``enqueueable`` look at
            nothing but its queue, counts, minimums, minResources, priority, phase and sums, and (for the latter two) at
            books that change only when jobs are admitted or placed. Then the engine may take the answer for one job
            as that for all jobs of its shape (``job.shape``). Names, ages, labels and annotations must not be looked
            at. False is always right, and slower.
        by_rank: of jobs of one shape that differ in what else ``job_key``, ``starving`` and ``victims`` look at, one
            that comes later in the order starves, and takes from others, only where those before it do. False is
            always right, and slower.
        static_by_kin: ``static_filter`` and ``static_score`` look at nothing of a class that its kin (``PodClass.kin``)
            has not in common: not at what it requests, its ports, volumes and devices. False is always right, and
            slower where pods request many different amounts.
        moved_by_evictions: ``moved`` does nothing unless RELEASING is one of the states. Then the engine may place jobs
            of one shape together, and pass over those that would fail like the one before. False is always right.
        permits_only: ``enqueueable`` never refuses: it answers PERMIT or ABSTAIN. False is always right.
    """

    pure: ClassVar[bool]
    by_shape: ClassVar[bool] = False
    by_rank: ClassVar[bool] = False
    static_by_kin: ClassVar[bool] = False
    moved_by_evictions: ClassVar[bool] = False
    permits_only: ClassVar[bool] = False

    # ---- what it says of itself

    def concerns(self, pod_class: PodClass) -> bool:
        """Whether ``filter`` and ``score`` have anything to say about the class in this session; asked after ``open``.

        A plug-in that is not pure, or whose reach is wide, slows the placing of every class that it concerns.
        """
        return True

    def is_pure(self, pod_class: PodClass) -> bool:
        """``pure`` for one class, where that is known better than for all."""
        return self.pure

    def answers_alike(self, pod_class: PodClass) -> str | None:
        """What ``filter`` and ``score`` depend on of ``session.subject``, for plug-ins whose scope is wide.

        Subjects of a queue with the same answer here get the same answers there for the class, as things stand. None:
        the subject is like no other.
        """
        return None

    def answers_in_parts(self, pod_class: PodClass, jobs: Alike) -> Parts | None:
        """As `answers_alike` for waiting jobs of one shape at once, ``session.subject`` being one of them.

        Asked of built-in plug-ins only. None: they must be asked about one by one.
        """
        return None

    def stamp(self, pod_class: PodClass) -> int | None:
        """None when ``domain_filter`` and ``batch_score`` have nothing to say about the class in this session.

        Otherwise a number that moves whenever the answers of ``domain_filter`` may have changed, or -1: ask again after
        every placement. The first answer for a class decides whether it is concerned.
        """
        return -1

    def self_affecting(self, pod_class: PodClass) -> bool:
        """Whether placing a pod of the class may change what ``domain_filter`` answers for the class itself."""
        return True

    def by_domains(self, pod_class: PodClass) -> bool:
        """Whether placements change ``domain_filter`` for the class through ``session.domains`` and nothing else."""
        return False

    # ---- short cuts

    def admissible(self, job: JobState) -> int:
        """To how many jobs like this one ``enqueueable`` would say PERMIT one after the other, at least.

        For plug-ins that answer by shape. 0 makes the engine ask ``enqueueable``.
        """
        raise NotImplementedError

    def enqueued_alike(self, job: JobState, number: int) -> None:
        """``number`` jobs of the shape of ``job`` have become Inqueue: as many calls of ``enqueued`` in one.

        It is called before the next question of ``enqueueable``.
        """
        raise NotImplementedError

    def missing(self, job: JobState) -> int:
        """A lower bound of how many more tasks must become allocated before ``ready`` can turn true.

        The engine does not ask ``ready`` before that many were placed.
        """
        raise NotImplementedError

    def underused(self, queue: QueueState, pod_class: PodClass) -> int:
        """After how many more tasks of the class ``overused`` would still say nothing, at least.

        Without it ``overused`` is asked before each job.
        """
        raise NotImplementedError

    def headroom(self, queue: QueueState, pod_class: PodClass) -> int:
        """How many more tasks of this class ``allocatable`` would accept one after the other, at least.

        Without it ``allocatable`` is asked before each task. 0 makes the engine ask ``allocatable`` for the refusal.
        """
        raise NotImplementedError

    def filter_at(self, pod_class: PodClass, node: NodeAt) -> bool:
        """Whether ``filter`` refuses a node, as one question in plain numbers.

        For pure plug-ins: after a placement one node is looked at again. The engine uses it only where every plug-in
        concerned has it (and ``score_at``).
        """
        raise NotImplementedError

    def score_at(self, pod_class: PodClass, node: NodeAt) -> float | None:
        """What ``score`` answers for a node, as one question in plain numbers; exactly the same number."""
        raise NotImplementedError

    def line_score(self, pod_class: PodClass) -> LineScore | None:
        """The points of ``batch_score`` for a class, where all nodes of a line (a group of nodes) share theirs.

        For points that do not depend on the candidates: with it a placement costs no pass over all nodes. None: ask
        ``batch_score``.
        """
        raise NotImplementedError

    def victim_jobs(self, actor: JobState, task: Task | None, jobs: VictimJobs, purpose: Purpose) -> BoolArray | None:
        """Which jobs could lose tasks to ``actor`` at all: an upper bound of what ``victims`` would answer.

        Without it ``victims`` is asked on every node whose pods would make enough room. None: no bound known.
        """
        raise NotImplementedError
