"""Hooks of plug-ins about evictions: who may go for whom, who stays, and what is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unisono.engine.answers import BoolArray, Key, Purpose

if TYPE_CHECKING:
    from unisono.cluster.records import Task
    from unisono.engine.session.job_state import JobState, QueueState


class EvictionHooks:
    """Votes on victims, and limits."""

    # ---- victims

    def victims(
        self, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose
    ) -> BoolArray | None:
        """Which of ``candidates`` may be evicted for ``actor`` (for its ``task``, or None for the whole gang).

        None abstains. Within a tier the masks are intersected; an empty answer passes the question to the next tier.
        """
        raise NotImplementedError

    def shuffled(self, candidates: Sequence[Task]) -> BoolArray | None:
        """Which running tasks should leave their nodes although no job waits for their places (action shuffle).

        Tasks that have failed stand behind the running ones, in state FAILED; they hold nothing, and what is named of
        them is deleted. None abstains. The masks of a tier are united; the first tier with any task decides.
        """
        raise NotImplementedError

    def retained(self, leaving: Sequence[Task]) -> BoolArray | None:
        """Which of the tasks that are to leave (action shuffle) must stay after all; None: none of them."""
        raise NotImplementedError

    def protected(self, candidates: Sequence[Task], purpose: Purpose) -> BoolArray | None:
        """Which of ``candidates`` must not be evicted now for any job; None: none of them.

        Asked once per action about all that could go. Unlike ``victims``, what it lets pass is no vote for anything.
        """
        raise NotImplementedError

    def allowance(self, queue: QueueState) -> int | None:
        """How many more tasks of ``queue`` may be evicted in this session, for whomever; None: any number.

        Asked before each eviction; ``moved`` tells of those that are carried out and taken back.
        """
        raise NotImplementedError

    def spared(self, victims: Sequence[Task]) -> str | None:
        """Why these tasks, without which a job would start, are not evicted now, and when they may be; None: not known.

        For verdicts; ``protected`` and ``allowance`` decide.
        """
        raise NotImplementedError

    def lost_work(self, leaving: Sequence[Task]) -> float | None:
        """What is lost when these tasks are evicted together, in any unit that compares; None abstains, always.

        It is at least 0, and at least as much as for any part of them. Among candidates of equal priority those go
        first with whom least is lost, and several nodes are compared.
        """
        raise NotImplementedError

    def victim_queue_key(self, queue: QueueState, actor: QueueState) -> Key:
        """Tasks of the queue with the lowest key are evicted first for ``actor``'s queue.

        Without it, and among equal keys, the queue that comes last in queue order loses first.
        """
        raise NotImplementedError
