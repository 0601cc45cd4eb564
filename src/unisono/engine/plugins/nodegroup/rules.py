"""Which groups of nodes a queue may use: rules and limits, as its Queue object states them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unisono.api.groups.scheduling import NodeGroupAffinity, NodeGroupAntiAffinity
from unisono.api.keys import NODE_GROUP_LIMITS
from unisono.api.quantity import QuantityError
from unisono.api.resources import resource_list
from unisono.cluster.records import Queue
from unisono.cluster.resources import scheduled
from unisono.engine.plugins.common.json_text import decoded


@dataclass(frozen=True, slots=True)
class Rules:
    """Node groups by how a queue regards them; ``preferred`` in order."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.required or self.preferred or self.forbidden or self.avoided)

    def allows(self, group: str) -> bool:
        """Wanted and not forbidden, or only avoided."""
        wanted = group in self.required or group in self.preferred
        return (wanted and group not in self.forbidden) or group in self.avoided

    def points(self, group: str, *, ordered: bool) -> float:
        """100 where required, 50 where preferred (less and less down the list when ``ordered``), -1 where avoided."""
        if group in self.avoided:
            return -1.0
        points = 100.0 if group in self.required else 0.0
        if group in self.preferred:
            number, place = len(self.preferred), self.preferred.index(group)
            points += 50.0 * (number - place) / number if ordered else 50.0
        return points


def rules_of(queue: Queue) -> Rules:
    """The queue's own rules."""
    affinity = queue.affinity
    if affinity is None:
        return Rules()
    required, preferred = _lists(affinity.node_group_affinity)
    forbidden, avoided = _lists(affinity.node_group_anti_affinity)
    return Rules(required, preferred, forbidden, avoided)


def _lists(part: NodeGroupAffinity | NodeGroupAntiAffinity | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if part is None:
        return (), ()
    required = part.required_during_scheduling_ignored_during_execution
    preferred = part.preferred_during_scheduling_ignored_during_execution
    return tuple(required or ()), tuple(preferred or ())


def limits_of(annotations: Mapping[str, str]) -> dict[str, dict[str, int]] | None:
    """Most amounts of the queue by node group (engine units); None when the annotation cannot be read."""
    text = annotations.get(NODE_GROUP_LIMITS)
    if not text:
        return {}
    try:
        given = decoded(text)
        return {group: scheduled(resource_list(amounts)) for group, amounts in given.items()}
    except (ValueError, AttributeError, TypeError, QuantityError):
        return None
