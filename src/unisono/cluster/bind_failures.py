"""Jobs whose binds failed lately, or for which a plug-in failed: what the next decisions need to know of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setback:
    """Binds of one job that the API server refused, or a plug-in that failed for it, again and again.

    Attributes:
        failures: attempts that failed, in a row.
        why: what the latest one failed on, with its node: ``node n1: admission webhook said no``.
        waiting: the job is not to be placed at present; others get the room.
        until: when it is placed again, seconds since the epoch.
        over: when the failures are forgotten, if no more come; before that no pod is evicted for the job.
        nodes: those that refused it: it is placed there only where no other node takes it.
        plugin: a plug-in failed for the job; ``why`` says which, and in what.

    """

    failures: int
    why: str
    waiting: bool
    until: float
    over: float
    nodes: frozenset[str] = frozenset()
    plugin: bool = False
