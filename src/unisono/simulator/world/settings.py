"""How a simulated world goes, apart from its workload, cluster and scheduler configuration."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from unisono.api.times import parse_duration
from unisono.simulator.files import InputError

START = 1_700_000_000.0
"""Seconds since the epoch at which a simulation begins."""


@dataclass(frozen=True, slots=True)
class Failures:
    """Random failures; each time is exponential, with the given mean in seconds, and 0 means never.

    Attributes:
        pod: mean time between failures of one running pod.
        node: the same of one node; its pods are lost.
        domain: the same of one topology domain of ``tier``; all of its nodes fail together.
        tier: which tier, 1 for the lowest.
        repair: mean time until a node is back.
    """

    pod: float = 0.0
    node: float = 0.0
    domain: float = 0.0
    tier: int = 1
    repair: float = 3600.0


@dataclass(frozen=True, slots=True)
class NodeChange:
    """At ``at`` seconds the node goes (``up`` False; its pods are lost), or comes (back).

    Attributes:
        cause: which random failure it is; empty for a change that was planned.
    """

    at: float
    node: str
    up: bool
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """How the world goes.

    Attributes:
        seed: of the engine and of everything random.
        run_times: what the scheduler is told of run times: ``exact``, ``estimate`` (what users state) or ``none``.
        retry: jobs that do not start wait; without it they are dropped after their first cycle.
        until: seconds after which the simulation ends; None means when all jobs have ended, or none can start.
        startup: seconds between a bind and the beginning of progress.
        grace: seconds that an evicted pod holds its place.
        period: shortest time in seconds between two cycles; 0 means a cycle after each moment at which something
            happened.
        recheck: a cycle after so many seconds in which nothing happened, for what looks at the clock; 0 means none, and
            None as often as the running scheduler where the configuration has such plug-ins or actions.
        marks: GPU-seconds; a cycle when a running job has had so many, for plug-ins with levels of attained service.
        topology_slowdown: factor on run times for gangs that span more than one domain, by the tier that joins them
            (1 for pods in one domain of the lowest tier).
        model_speed: speed by GPU model; 1.0 for models that it does not name. A gang goes at its slowest pod's.
        failures: random failures.
        changes: nodes that go and come at given times.
        epoch: seconds since 1970 at which the simulation begins.
    """

    seed: int = 0
    run_times: str = "estimate"
    retry: bool = True
    until: float | None = None
    startup: float = 0.0
    grace: float = 0.0
    period: float = 0.0
    recheck: float | None = None
    marks: tuple[float, ...] = ()
    topology_slowdown: Mapping[int, float] = field(default_factory=dict)
    model_speed: Mapping[str, float] = field(default_factory=dict)
    failures: Failures = field(default_factory=Failures)
    changes: tuple[NodeChange, ...] = ()
    epoch: float = START


# Settings as people write them on the command line.

_TIMES = ("pod", "node", "domain", "repair")
_EXAMPLES = {
    "--failures": "node=2160h,pod=720h,domain=8760h,tier=2,repair=4h",
    "--topology-slowdown": "2=1.1,3=1.3",
    "--model-speed": "A100=1,H100=2.2",
    "--away": "gpu-3=2h-6h",
}


def failures_from(text: str) -> Failures:
    """Failures as in ``node=2160h,repair=4h``: mean times by what fails, and ``tier`` for domains.

    Raises:
        InputError: the text says something else.
    """
    values: dict[str, float | int] = {}
    for key, value in _pairs("--failures", text):
        if key == "tier":
            values[key] = int(_above_zero("--failures", value, whole=True))
        elif key in _TIMES:
            values[key] = _seconds("--failures", value)
        else:
            raise _wrong("--failures", f"there is no {key}")
    if not values.keys() & set(_TIMES[:3]):
        raise _wrong("--failures", "neither pod, node nor domain fails")
    return Failures(**values)  # type: ignore[arg-type]


def slowdown_from(text: str) -> dict[int, float]:
    """Factors on run times by tier, as in ``2=1.1,3=1.3``.

    Raises:
        InputError: the text says something else.
    """
    option = "--topology-slowdown"
    return {
        int(_above_zero(option, tier, whole=True)): _above_zero(option, value) for tier, value in _pairs(option, text)
    }


def speeds_from(text: str) -> dict[str, float]:
    """Speeds by GPU model, as in ``A100=1,H100=2.2``.

    Raises:
        InputError: the text says something else.
    """
    return {model: _above_zero("--model-speed", value) for model, value in _pairs("--model-speed", text)}


def changes_from(texts: Sequence[str]) -> tuple[NodeChange, ...]:
    """Nodes that are away, as in ``gpu-3=2h-6h``, or ``gpu-3=2h`` for those that do not come back.

    Raises:
        InputError: a text says something else.
    """
    changes = []
    for text in texts:
        for node, value in _pairs("--away", text):
            first, dash, last = value.partition("-")
            gone, back = _seconds("--away", first, least=0.0), _seconds("--away", last) if dash else inf
            if back <= gone:
                raise _wrong("--away", f"{value} ends before it begins")
            changes.append(NodeChange(gone, node, up=False))
            if dash:
                changes.append(NodeChange(back, node, up=True))
    return tuple(changes)


def refuse_unused(settings: Settings, models: Collection[str], tiers: int) -> None:
    """Refuse settings that could change nothing on a cluster.

    Args:
        settings: to be looked at.
        models: of the GPUs of the cluster's nodes.
        tiers: how many its topology has.

    Raises:
        InputError: one of them names what the cluster does not have.
    """
    for model in settings.model_speed:
        if model not in models:
            raise _wrong("--model-speed", f"no node has GPUs of the model {model}, but {', '.join(sorted(models))}")
    for tier in settings.topology_slowdown:
        if not tiers or tier > tiers + 1:
            raise _wrong("--topology-slowdown", f"there is no tier {tier}: the cluster's topology has {tiers}")
    if settings.failures.domain and settings.failures.tier > tiers:
        raise _wrong("--failures", f"there are no domains of tier {settings.failures.tier}: the topology has {tiers}")


def _pairs(option: str, text: str) -> list[tuple[str, str]]:
    values_by_key: dict[str, str] = {}
    for word in text.split(","):
        key, equals, value = word.strip().partition("=")
        if not key or not equals or key in values_by_key:
            raise _wrong(
                option, f"{word.strip()!r} is no NAME=VALUE" if key not in values_by_key else f"{key} stands twice"
            )
        values_by_key[key] = value
    return list(values_by_key.items())


def _seconds(option: str, text: str, least: float = 1.0) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError:
        seconds = -1.0
    if seconds < least:
        raise _wrong(option, f"{text!r} is no time of {least:g} s or more, such as 90m or 720h")
    return seconds


def _above_zero(option: str, text: str, *, whole: bool = False) -> float:
    try:
        value = float(int(text)) if whole else float(text)
    except ValueError:
        value = 0.0
    if not 1e-3 <= value <= 1e3:
        raise _wrong(option, f"{text!r} is no {'whole number from 1' if whole else 'number from 0.001'} to 1000")
    return value


def _wrong(option: str, what: str) -> InputError:
    return InputError(f"{option}: {what}; write it like {_EXAMPLES[option]}")
