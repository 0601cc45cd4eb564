"""One cluster in the making, which features change one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

Object = dict[str, Any]
NAMESPACES = ("default", "team")
CARD = "example.com/card"
NODES, CPUS = 4, 6
NOW = datetime.fromtimestamp(1_700_000_000, UTC)
"""When the life of each draw begins."""


@dataclass(slots=True)
class Draw:
    """One cluster in the making: features change it one after the other, then jobs are made.

    Attributes:
        random: of the seed.
        luck, chance: of the seed as well, for features that came later, and later still: all else of a seed stays as it
            was.
        actions: of the scheduler, in order.
        tiers: its plug-ins by tier.
        queues: specs by name, and annotations beside them.
        queue_notes: further annotations of queues by name.
        before: objects that are there before any job.
        users: users that jobs are submitted for; empty: jobs name none.
        node: more of each node.
        groups: further nodes.
        labels: of nodes, by name.
        jobs: changes to each Job, called with its body and number.
        extra: what is submitted beside the Jobs.
    """

    random: Random
    luck: Random
    chance: Random
    actions: list[str] = field(default_factory=lambda: ["enqueue", "allocate", "backfill"])
    tiers: list[list[Object]] = field(
        default_factory=lambda: [
            [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}],
            [{"name": "overcommit"}, {"name": "predicates"}, {"name": "nodeorder"}],
        ]
    )
    queues: dict[str, Object] = field(default_factory=lambda: {"a": {"weight": 1}, "b": {"weight": 2}})
    notes: dict[str, str] = field(default_factory=dict)
    queue_notes: dict[str, dict[str, str]] = field(default_factory=dict)
    before: list[Object] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    node: Object = field(default_factory=dict)
    groups: list[Object] = field(default_factory=list)
    labels: dict[str, Object] = field(default_factory=dict)
    jobs: list[Callable[[Object, int], None]] = field(default_factory=list)
    extra: list[Object] = field(default_factory=list)

    def add(self, name: str, tier: int = 1, **arguments: Any) -> None:
        """Configure a plug-in once, before those that score."""
        if not any(option["name"] == name for each in self.tiers for option in each):
            self.tiers[tier].insert(-1 if tier else len(self.tiers[0]), {"name": name, **arguments})

    def act(self, *names: str) -> None:
        """Configure actions, before backfill."""
        for name in names:
            if name not in self.actions:
                self.actions.insert(-1, name)

    def leaves(self) -> list[str]:
        """Queues that take jobs."""
        parents = {spec.get("parent") for spec in self.queues.values()}
        return [name for name in self.queues if name not in parents]

    def config(self) -> Object:
        """The scheduler configuration."""
        return {"actions": ", ".join(self.actions), "tiers": [{"plugins": tier} for tier in self.tiers]}


def container(body: Object) -> Object:
    """The container of a Job's pods."""
    found: Object = body["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    return found


def note(body: Object, key: str, text: str) -> None:
    """Annotate an object."""
    body["metadata"].setdefault("annotations", {})[key] = text
