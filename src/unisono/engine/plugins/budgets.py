"""budgets: jobs and queues whose soft budget is used up come after those that have something left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unisono.api.selecting import lineage
from unisono.engine.answers import Key
from unisono.engine.config.arguments import Argument
from unisono.engine.contract.plugin import Plugin
from unisono.engine.session.budgets import spendings_of

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState, QueueState
    from unisono.engine.session.session import Session

_AUTO = Argument("budgets.AutoEnable", "bool", False, "nothing where no soft Budget is used up")


class BudgetsPlugin(Plugin):
    """Orders by how far soft budgets are overdrawn; hard ones hold without it."""

    name = "budgets"
    known_arguments = (_AUTO,)

    @classmethod
    def used(cls, session: Session) -> bool:
        """Where a soft one is used up."""
        return bool(_overdrawn(session))

    def open(self, session: Session) -> None:
        """Look who has nothing left."""
        self.session = session
        self._soft = _overdrawn(session)
        self._queues: dict[str, float] = {}

    def queue_key(self, queue: QueueState) -> Key:
        """Queues with something left first, then those that have used the least of what they may."""
        used_share = self._queues.get(queue.name)
        if used_share is None:
            parents = {name: each.record.parent for name, each in self.session.queues.items()}
            above = set(lineage(queue.name, parents))
            spendings = spendings_of(self.session)
            of = [] if spendings is None else [(at, one.purse) for at, one in enumerate(spendings.all)]
            used_share = max((self._soft[at] for at, one in of if at in self._soft and one.queues & above), default=0.0)
            self._queues[queue.name] = used_share
        return used_share

    def job_key(self, job: JobState) -> Key:
        """The same of jobs."""
        spendings = spendings_of(self.session)
        of = () if spendings is None or not self._soft else spendings.of(job.record)
        return max((self._soft[at] for at in of if at in self._soft), default=0.0)


def _overdrawn(session: Session) -> dict[int, float]:
    """Soft budgets that are used up, by their place in the session: how much of them was used, 1.0 for all."""
    overdrawn: dict[int, float] = {}
    spendings = spendings_of(session)
    for at, one in enumerate(spendings.all if spendings is not None else ()):
        if one.up and not one.purse.hard:
            overdrawn[at] = max(one.tally.used.get(name, 0.0) / one.purse.amounts[name] for name in one.up)
    return overdrawn
