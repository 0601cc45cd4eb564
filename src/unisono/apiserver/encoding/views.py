"""Kinds that are stored as another one: the same objects under another group or version, in other words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.api.kinds import EVENTS
from unisono.api.serving_kinds import HORIZONTAL_POD_AUTOSCALERS, HORIZONTAL_POD_AUTOSCALERS_V1
from unisono.apiserver.encoding import autoscaling_v1, events_v1

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class View:
    """One such kind.

    Attributes:
        kind: as clients see it.
        stored: what its objects are stored as.
        to_stored: a decoded object of ``kind`` as one of ``stored``.
        from_stored: a decoded stored object as one of ``kind``.
        selector: a field selector of ``kind`` in the words of ``stored``.

    """

    kind: Kind[Any]
    stored: Kind[Any]
    to_stored: Callable[[Document], Document]
    from_stored: Callable[[Document], Document]
    selector: Callable[[str], str] = str

    def show(self, data: bytes) -> bytes:
        """Stored bytes as clients see them."""
        return msgspec.json.encode(self.from_stored(msgspec.json.decode(data)))


VIEWS: tuple[View, ...] = (
    View(events_v1.EVENTS_V1, EVENTS, events_v1.to_core, events_v1.from_core, events_v1.core_selector),
    View(
        HORIZONTAL_POD_AUTOSCALERS_V1,
        HORIZONTAL_POD_AUTOSCALERS,
        autoscaling_v1.to_stored,
        autoscaling_v1.from_stored,
    ),
)
_BY_STRUCT: dict[type[Object], View] = {view.kind.struct: view for view in VIEWS}


def view_of(kind: Kind[Any]) -> View | None:
    """The view that a kind is; None for kinds that are stored as they are."""
    return _BY_STRUCT.get(kind.struct)


def selector_for(kind: Kind[Any], fields: str) -> str:
    """A field selector in the names that the stored objects have."""
    view = view_of(kind)
    return fields if view is None else view.selector(fields)
