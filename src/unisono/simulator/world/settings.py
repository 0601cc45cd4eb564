"""How a simulated world goes, apart from its workload, cluster and scheduler configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    """At ``at`` seconds the node goes (``up`` False; its pods are lost), or comes (back)."""

    at: float
    node: str
    up: bool


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
