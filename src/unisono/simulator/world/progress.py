"""How far the parts of a job have come: what they lose when interrupted, and when they end."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from unisono.simulator.workload.job import Job
from unisono.simulator.world.outcome import Stretch


@dataclass(slots=True)
class Unit:
    """Pods that make progress together.

    Attributes:
        number: which part of its job.
        pods: numbers of its pods in the job.
        minimum: pods without which it makes none.
        left: seconds of progress until it ends, as of ``since``.
        done: seconds of progress made, as of ``since``.
        rate: progress per second.
        since: when progress was counted last, or begins.
        placed: node number by pod number, for the pods that have places.
        stretch: the open one, None while it does not run.
        version: grows with each change; an end that was foreseen before is void.
        over: it has ended.
        attempts: how often it has begun.
        attained: seconds for which it has held its places before the open stretch.

    """

    number: int
    pods: tuple[int, ...]
    minimum: int
    left: float
    done: float = 0.0
    rate: float = 0.0
    since: float = 0.0
    placed: dict[int, int] = field(default_factory=dict)
    stretch: Stretch | None = None
    version: int = 0
    over: bool = False
    attempts: int = 0
    attained: float = 0.0

    def settle(self, now: float) -> None:
        """Count the progress made until now."""
        if now > self.since:
            made = (now - self.since) * self.rate
            self.done += made
            self.left = max(0.0, self.left - made)
            self.since = now

    def end(self) -> float:
        """When it ends at this rate, infinite where it does not."""
        return self.since + self.left / self.rate if self.rate > 0 else inf

    def fall_back(self, checkpoint: float | None) -> float:
        """Lose the progress since the last checkpoint; answers how many seconds of it."""
        if checkpoint is None:
            kept = 0.0
        elif checkpoint > 0:
            kept = self.done // checkpoint * checkpoint
        else:
            kept = self.done
        lost = self.done - kept
        self.left += lost
        self.done = kept
        return lost


def units_of(job: Job) -> list[Unit]:
    """The parts of a job: one where its pods run together, else one for each pod."""
    pods = job.pods
    if job.elastic or job.minimum == pods:
        return [Unit(0, tuple(range(pods)), job.minimum, job.work)]
    return [Unit(number, (number,), 1, job.work) for number in range(pods)]
