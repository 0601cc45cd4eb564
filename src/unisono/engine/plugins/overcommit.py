"""overcommit: PodGroups are admitted until a multiple of the free cluster is promised."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from unisono.engine.answers import Refusal, Vote
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.session.amounts import UNLIMITED, Amounts, exceeded, listed, named
from unisono.engine.session.book import View
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
        """Sum up what is free: of a multiple of the cluster, and just now."""
        self.registry, self.book = session.registry, session.book
        sums, factor = session.snapshot.nodes.sums(), self.factor
        amounts = list(zip(sums.usable.tolist(), sums.used.tolist(), strict=True))
        self.idle: Amounts = [whole * factor.numerator // factor.denominator - taken for whole, taken in amounts]
        self.free: Amounts = [whole - taken for whole, taken in amounts]

    @property
    def _limit(self) -> Amounts:
        return self.free if self.book.view is View.NOW else self.idle

    def enqueueable(self, job: JobState) -> Vote | Refusal:
        """Permit while the promise can be kept, in the resources that the job names."""
        if job.asks is None:
            return Vote.PERMIT
        promised, limit = self.book.promised_everywhere(), self._limit
        request = listed(job.asks, self.registry)
        short = exceeded(self.book.evictable.without(promised), request, limit)
        if not short:
            return Vote.PERMIT
        names = ", ".join(f"overused {self.registry.names[row]}" for row in short)
        return Refusal(
            f"resource in cluster is overused: {names}",
            Cause.CLUSTER_OVERCOMMITTED,
            need=named(self.registry, request, short),
            have=named(self.registry, promised, short),
            limit=named(self.registry, limit, short),
            event=True,
        )

    def admissible(self, job: JobState) -> int:
        """As often as minResources fit into what is not promised yet."""
        if job.asks is None:
            return UNLIMITED
        request, promised = listed(job.asks, self.registry), self.book.promised_everywhere()
        amounts = zip(request, promised, self._limit, strict=True)
        room = [(whole - taken) // amount for amount, taken, whole in amounts if amount > 0]
        return max(min(room, default=UNLIMITED), 0)


@lru_cache(maxsize=16)
def _exactly(text: str) -> Fraction:
    return Fraction(text)
