"""Generated workloads: Poisson arrivals, a daily cycle, and gangs as in Lublin and Feitelson's model; all from a seed.

Jobs come in families (a user's repeated runs of one program): the run times of a family lie close together, and users
state limits far above them, as in real logs. Sizes are GPUs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import cos, exp, inf, log2, pi, sqrt

from unisono.simulator.workload.job import MOST_JOBS, Job, NodeShape, WorkloadError, gpu_roles

_DAY = 86400.0
_SIZES = ((1, 2, 4, 8, 16, 32), (70, 10, 8, 8, 3, 1))
"""Sizes of GPU jobs and their weights, about those of Microsoft's Philly."""
_LIMITS = (300.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0, 43200.0, 86400.0, 172800.0, 604800.0)
"""Limits that users state: round numbers (Tsafrir, Etsion and Feitelson, "Modeling user runtime estimates", 2005)."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is generated.

    Attributes:
        kind: ``poisson``, ``diurnal`` or ``lublin``.
        jobs: how many.
        gpus: GPUs of the cluster, to which the load refers.
        load: GPU time that would be used while jobs arrive if each started at once, over that of the cluster. What runs
            on after the last arrival does not count: with long jobs that is a third of all work.
        mean_seconds: mean run time (not of ``lublin``, whose model has its own).
        users: how many, each with a few families of jobs.
        queues: names of queues with the weight by which jobs choose them.
        seed: of everything random.
    """

    kind: str = "poisson"
    jobs: int = 1000
    gpus: int = 64
    load: float = 0.8
    mean_seconds: float = 3600.0
    users: int = 20
    queues: Mapping[str, float] | None = None
    seed: int = 0


def generate(recipe: Recipe, shape: NodeShape) -> list[Job]:
    """Jobs in order of submission.

    Raises:
        WorkloadError: the recipe cannot be followed.
    """
    _check(recipe)
    draw = random.Random(f"{recipe.seed}/{recipe.kind}")  # nosec B311 # draws of a simulation, no secret
    families = [_family(draw, recipe, number) for number in range(3 * recipe.users)]
    queues = recipe.queues or {"default": 1.0}
    bodies = []
    for number in range(recipe.jobs):
        gpus, run, family = _body(draw, recipe, families)
        queue = draw.choices(list(queues), list(queues.values()))[0]
        bodies.append((number, gpus, run, _limit(draw, run), family, queue))
    times = _arrivals(draw, recipe, [(gpus, run) for _, gpus, run, *_ in bodies])
    return [
        Job(
            name=f"{family.name}-{number}",
            submit=round(at, 3),
            run_seconds=run,
            roles=gpu_roles(gpus, shape),
            queue=queue,
            user=family.user,
            estimate=limit,
        )
        for at, (number, gpus, run, limit, family, queue) in zip(times, bodies, strict=True)
    ]


def _check(recipe: Recipe) -> None:
    if recipe.kind not in _INTENSITIES:
        raise WorkloadError(f"there is no generator '{recipe.kind}'; known are {', '.join(_INTENSITIES)}")
    if not 0 < recipe.jobs <= MOST_JOBS or recipe.users < 1 or recipe.gpus < 1:
        raise WorkloadError(f"give 1 to {MOST_JOBS} jobs, and at least one user and one GPU")
    if not 0 < recipe.load < 100 or not 0 < recipe.mean_seconds < inf:
        raise WorkloadError("give a load above 0 and below 100, and a mean run time above 0")


@dataclass(frozen=True, slots=True)
class _Family:
    name: str
    user: str
    gpus: int
    seconds: float


def _family(draw: random.Random, recipe: Recipe, number: int) -> _Family:
    user = f"user-{number % recipe.users}"
    gpus = draw.choices(*_SIZES)[0]
    gpus = min(gpus, recipe.gpus)
    # Log-normal with the mean that is asked for: half of all families run less than a seventh of it.
    sigma = 2.0
    seconds = recipe.mean_seconds * draw.lognormvariate(-sigma * sigma / 2, sigma)
    return _Family(f"train-{_word(number)}", user, gpus, min(max(seconds, 10.0), 7 * _DAY))


def _word(number: int) -> str:
    """Letters for a number, so that it is no number at the end of a name."""
    letters = ""
    while True:
        number, rest = divmod(number, 26)
        letters = chr(ord("a") + rest) + letters
        if not number:
            return letters


def _body(draw: random.Random, recipe: Recipe, families: Sequence[_Family]) -> tuple[int, float, _Family]:
    """GPUs, run time and family of a job."""
    family = draw.choice(families)
    if recipe.kind == "lublin":
        gpus = _lublin_size(draw, recipe.gpus)
        return gpus, _lublin_seconds(draw, gpus), family
    return family.gpus, round(max(1.0, family.seconds * draw.lognormvariate(0, 0.3)), 3), family


def _limit(draw: random.Random, run: float) -> float:
    """What a user states: the run time times a factor, rounded up to a limit that people use."""
    stated = run * (1 + draw.expovariate(1.0))
    return next((limit for limit in _LIMITS if limit >= stated), max(_LIMITS[-1], run))


# ---- arrivals: a Poisson process, even or with a daily cycle


def _arrivals(draw: random.Random, recipe: Recipe, bodies: Sequence[tuple[int, float]]) -> list[float]:
    """Seconds at which jobs of so many GPUs and seconds come, so that the load is the recipe's.

    Raises:
        WorkloadError: so few jobs do not reach the load, however fast they come.
    """
    parts, at = [], 0.0
    for _ in bodies:
        at += draw.expovariate(1.0)
        parts.append(at)
    parts = [part / at for part in parts]
    intensity = _INTENSITIES[recipe.kind]

    def times(length: float) -> list[float]:
        return intensity(parts, length)

    def load(length: float) -> float:
        used = sum(gpus * min(run, length - at) for (gpus, run), at in zip(bodies, times(length), strict=True))
        return used / (length * recipe.gpus)

    shortest, longest = 1.0, max(2.0, sum(gpus * run for gpus, run in bodies) / (recipe.load * recipe.gpus))
    if load(shortest) < recipe.load:
        raise WorkloadError(
            f"{recipe.jobs} jobs cannot give a load of {recipe.load:g} on {recipe.gpus} GPUs: ask for more jobs"
        )
    # The longer jobs take to come, the smaller the load.
    for _ in range(40):
        middle = sqrt(shortest * longest)
        shortest, longest = (middle, longest) if load(middle) > recipe.load else (shortest, middle)
    return times(shortest)


def _even(parts: Sequence[float], length: float) -> list[float]:
    return [part * length for part in parts]


def _daily(parts: Sequence[float], length: float) -> list[float]:
    """Four times as many at the busiest hour as at the quietest: intensity ``1 + 0.6 sin``."""

    def whole(day: float) -> float:
        return day + 0.6 / (2 * pi) * (1 - cos(2 * pi * day))

    # The integral of the intensity at the hours between, and straight lines from one to the next.
    days = max(length / _DAY, 1e-9)
    steps = max(48, min(int(24 * days), 10_000))
    integral = [whole(days * step / steps) for step in range(steps + 1)]
    times, step = [], 0
    for part in parts:
        target = part * integral[-1]
        while step + 1 < steps and integral[step + 1] < target:
            step += 1
        low, high = integral[step], integral[step + 1]
        times.append(min((step + (target - low) / (high - low)) / steps, 1.0) * length)
    return times


_INTENSITIES: Mapping[str, Callable[[Sequence[float], float], list[float]]] = {
    "poisson": _even,
    "diurnal": _daily,
    "lublin": _daily,
}

GENERATORS = tuple(_INTENSITIES)

# ---- U. Lublin and D. Feitelson, "The workload on parallel supercomputers", JPDC 63 (2003): sizes and run times

_SERIAL, _POWER_OF_TWO = 0.244, 0.576
_LOW, _BELOW_TOP, _FIRST_STAGE = 0.8, 2.5, 0.86
_SHORT, _LONG = (4.2, 0.94), (312.0, 0.03)
_SLOPE, _BASE = -0.0054, 0.78


def _lublin_size(draw: random.Random, largest: int) -> int:
    """A two-stage uniform distribution of the logarithm; many serial jobs and powers of two."""
    if draw.random() < _SERIAL or largest < 2:
        return 1
    high = log2(largest)
    middle = max(high - _BELOW_TOP, _LOW)
    low, top = (_LOW, middle) if draw.random() < _FIRST_STAGE else (middle, high)
    size = draw.uniform(min(low, top), top)
    if draw.random() < _POWER_OF_TWO:
        size = round(size)
    return max(1, min(largest, round(2**size)))


def _lublin_seconds(draw: random.Random, size: int) -> float:
    """The exponential of a mixture of two gamma distributions; larger jobs are more often long."""
    short = draw.random() < max(0.0, min(1.0, _SLOPE * size + _BASE))
    shape, scale = _SHORT if short else _LONG
    return round(max(1.0, exp(draw.gammavariate(shape, scale))), 3)
