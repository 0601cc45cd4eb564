"""Tables of resource claims and of the devices that nodes offer."""

from __future__ import annotations

from typing import Any

from unisono.apiserver.tables.columns import AGE, NAME, Column, Layout, Row
from unisono.apiserver.tables.values import age, get, items, text


def _claim(obj: Row, now: float) -> list[Any]:
    deleted, allocated = get(obj, "metadata", "deletionTimestamp"), get(obj, "status", "allocation")
    states = ["deleted"] if deleted else []
    if allocated:
        states += ["allocated", *(["reserved"] if items(obj, "status", "reservedFor") else [])]
    elif not deleted:
        states.append("pending")
    return [text(obj, "metadata", "name"), ",".join(states), age(get(obj, "metadata", "creationTimestamp"), now)]


def _slice(obj: Row, now: float) -> list[Any]:
    return [
        text(obj, "metadata", "name"),
        text(obj, "spec", "nodeName"),
        text(obj, "spec", "driver"),
        text(obj, "spec", "pool", "name"),
        age(get(obj, "metadata", "creationTimestamp"), now),
    ]


def _named(obj: Row, now: float) -> list[Any]:
    return [text(obj, "metadata", "name"), age(get(obj, "metadata", "creationTimestamp"), now)]


_STATE = "A summary of the current state (allocated, pending, reserved, etc.)."
DEVICE_KINDS = Layout((NAME, AGE), _named)
RESOURCE_CLAIMS = Layout((NAME, Column("State", description=_STATE), AGE), _claim)
RESOURCE_SLICES = Layout((NAME, Column("Node"), Column("Driver"), Column("Pool"), AGE), _slice)
