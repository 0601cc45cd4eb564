"""Possible run times for a guess: how far jobs are from what is stated or was learnt."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from unisono.cluster.run_durations import Family, family_of, ran_seconds
from unisono.engine.plugins.reservation.run_estimates import RunEstimates
from unisono.engine.session.session import Session
from unisono.simulator.forecast.live import Guess, LiveObjects

_LEAST_RATIOS = 20
"""Ratios seen before they count more than what is generally true."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Ratios of true run times to guesses.

    Without enough of its own, what is known of real logs holds: jobs use any share of the limits that users state, each
    about as often (Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates", IEEE
    TPDS 12, 2001), runs of one program lie within a factor of about two of the last ones, and of jobs without a guess
    nothing is known but the order of magnitude.

    Attributes:
        stated: ratios seen where limits were stated.
        learnt: ratios seen where earlier runs were known.
    """

    stated: Sequence[float] = ()
    learnt: Sequence[float] = ()

    def draw(self, random_: random.Random, guess: Guess) -> float:
        """A possible run time."""
        seen = self.stated if guess.stated else self.learnt if guess.known else ()
        if len(seen) >= _LEAST_RATIOS:
            return max(guess.seconds * random_.choice(seen), 1.0)
        if guess.stated:
            return max(guess.seconds * random_.random(), 1.0)
        return max(guess.seconds * random_.lognormvariate(0.0, 0.4 if guess.known else 1.5), 1.0)


def seen_in(objects: LiveObjects, now: float) -> Spread:
    """How the jobs that have succeeded ran, as far as their pods are still there.

    To the limits that they stated, and to earlier runs of their kind.
    """
    state = objects.state()
    estimates = RunEstimates(Session(state.snapshot(), now, 0), learned=False)
    ran: dict[str, tuple[float, Family, float]] = {}
    stated: dict[str, float] = {}
    for pod in objects.of("Pod"):
        task = state.tasks.get(pod.key)
        seconds = ran_seconds(pod, task) if task is not None else 0.0
        if task is None or not seconds:
            continue
        job = task.job or pod.key
        seconds = max(seconds, ran[job][2] if job in ran else 0.0)
        ran[job] = (task.since or task.created) + seconds, family_of(task), seconds
        stated[job] = estimates.stated(task)
    ratios = [ran[job][2] / limit for job, limit in stated.items() if limit]
    return Spread(stated=ratios, learnt=to_earlier((family, seconds) for _, family, seconds in sorted(ran.values())))


def to_earlier(runs: Iterable[tuple[Hashable, float]]) -> list[float]:
    """Ratios of run times to the mean of the last two of their kind; ``runs`` are kinds and seconds, oldest first."""
    before: dict[Hashable, tuple[float, ...]] = {}
    ratios: list[float] = []
    for kind, seconds in runs:
        last = before.get(kind, ())
        if last:
            ratios.append(seconds * len(last) / sum(last))
        before[kind] = (*last[-1:], seconds)
    return ratios


def as_stated(_: random.Random, guess: Guess) -> float:
    """The guess itself, as a scheduler that goes by limits takes it."""
    return guess.seconds
