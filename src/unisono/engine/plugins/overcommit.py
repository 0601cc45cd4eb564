"""overcommit: PodGroups are admitted until a multiple of the free cluster is promised."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from unisono.cluster.resources import fitted
from unisono.engine.answers import Refusal, Vote
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.session.amounts import UNLIMITED, Amounts, aligned, exceeded, listed, named
from unisono.engine.verdict import Cause

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session

_FACTOR = Argument("overcommit-factor", "float", 1.2, "cluster size that may be promised, as a multiple; at least 1")


class OvercommitPlugin(Plugin):
    """Admits while promised and new minResources fit into ``factor * total - used`` of the usable nodes."""

    name = "overcommit"
    by_shape = True
    known_arguments = (_FACTOR,)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        factor = float(argument_value(_FACTOR, self.arguments))
        # as a fraction, so that 1.2 times 30 cores is 36 cores and not a hair less
        self.factor = _exactly(str(factor if factor >= 1 else _FACTOR.default))

    def open(self, session: Session) -> None:
        """Sum up what is free and what admitted jobs are still promised."""
        self.registry = session.registry
        sums, factor = session.snapshot.nodes.sums(), self.factor
        amounts = zip(sums.usable.tolist(), sums.used.tolist(), strict=True)
        self.idle: Amounts = [whole * factor.numerator // factor.denominator - taken for whole, taken in amounts]
        self.session = session

    @cached_property
    def promised(self) -> Amounts:
        """What admitted jobs are still promised.

        Of jobs admitted in earlier cycles only what the share of their queue lets it place: jobs that wait for their
        own queue must not keep the jobs of others from being admitted. First asked for when every plug-in is open.
        """
        promised = np.zeros(len(self.registry), dtype=np.int64)
        for queue in self.session.queues.values():
            # What is kept on nodes is among what is used there.
            standing = fitted(queue.record.standing, self.session.rows)
            own = aligned(np.maximum(self.session.promised(queue) - standing, 0), self.registry)
            room = self.session.queue_shares.room(queue)
            promised += own if room is None else np.minimum(own, room)
        return listed(promised, self.registry)

    def enqueueable(self, job: JobState) -> Vote | Refusal:
        """Permit while the promise can be kept, in the resources that the job names."""
        if job.asks is None:
            return Vote.PERMIT
        request = listed(job.asks, self.registry)
        short = exceeded(self.session.evictable.without(self.promised), request, self.idle)
        if not short:
            return Vote.PERMIT
        names = ", ".join(f"overused {self.registry.names[row]}" for row in short)
        return Refusal(
            f"resource in cluster is overused: {names}",
            Cause.CLUSTER_OVERCOMMITTED,
            need=named(self.registry, request, short),
            have=named(self.registry, self.promised, short),
            limit=named(self.registry, self.idle, short),
            event=True,
        )

    def admissible(self, job: JobState) -> int:
        """As often as minResources fit into what is not promised yet."""
        if job.asks is None:
            return UNLIMITED
        amounts = zip(listed(job.asks, self.registry), self.promised, self.idle, strict=True)
        room = [(whole - taken) // amount for amount, taken, whole in amounts if amount > 0]
        return max(min(room, default=UNLIMITED), 0)

    def enqueued_alike(self, job: JobState, number: int) -> None:
        """Their minResources are promised now."""
        if job.asks is not None:
            for row, amount in enumerate(job.asks.tolist()):
                self.promised[row] += amount * number

    def enqueued(self, job: JobState) -> None:
        """The job's minResources are promised now."""
        if job.asks is not None:
            for row, amount in enumerate(job.asks.tolist()):
                self.promised[row] += amount


@lru_cache(maxsize=16)
def _exactly(text: str) -> Fraction:
    return Fraction(text)
