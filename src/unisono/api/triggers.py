"""Triggers of ScaledObjects: which types there are, what they need, and what they say (pure)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from unisono.api.cron import parse_schedule, parse_zone
from unisono.api.field_error import FieldError, invalid, not_supported, required
from unisono.api.keda import ScaleTrigger

PROMETHEUS, CRON, CPU, MEMORY = "prometheus", "cron", "cpu", "memory"
TYPES: Final = (CPU, CRON, MEMORY, PROMETHEUS)
"""Those that are acted on here."""
LONGEST_QUERY: Final = 8192
_NEEDED: Mapping[str, tuple[str, ...]] = {
    PROMETHEUS: ("serverAddress", "query", "threshold"),
    CRON: ("timezone", "start", "end", "desiredReplicas"),
    CPU: ("value",),
    MEMORY: ("value",),
}
_NUMBERS = ("threshold", "activationThreshold", "desiredReplicas", "value")
_METRIC_TYPES = ("AverageValue", "Utilization", "Value")


def mistakes(trigger: ScaleTrigger, path: str) -> Iterator[FieldError]:
    """What is wrong with a trigger."""
    if trigger.type not in TYPES:
        yield not_supported(f"{path}.type", trigger.type, TYPES)
        return
    if trigger.metric_type is not None and trigger.metric_type not in _METRIC_TYPES:
        yield not_supported(f"{path}.metricType", trigger.metric_type, _METRIC_TYPES)
    given = trigger.metadata
    for key in _NEEDED[trigger.type]:
        if not given.get(key):
            yield required(f"{path}.metadata.{key}")
    for key in _NUMBERS:
        if given.get(key) and number(given[key]) is None:
            yield invalid(f"{path}.metadata.{key}", given[key], "must be a number that is not negative")
    if trigger.type == PROMETHEUS:
        yield from _prometheus(given, f"{path}.metadata")
    if trigger.type == CRON:
        yield from _cron(given, f"{path}.metadata")


def _prometheus(given: Mapping[str, str], path: str) -> Iterator[FieldError]:
    address, query = given.get("serverAddress", ""), given.get("query", "")
    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if address and not good:
        yield invalid(f"{path}.serverAddress", address, "must be a URL such as http://prometheus:9090")
    if len(query) > LONGEST_QUERY:
        yield invalid(f"{path}.query", query[:100], f"must be no longer than {LONGEST_QUERY} characters")
    if given.get("threshold") and not number(given["threshold"]):
        yield invalid(f"{path}.threshold", given["threshold"], "must be greater than 0")


def _cron(given: Mapping[str, str], path: str) -> Iterator[FieldError]:
    for key in ("start", "end"):
        try:
            if given.get(key):
                parse_schedule(given[key])
        except ValueError as error:
            yield invalid(f"{path}.{key}", given[key], str(error))
    try:
        if given.get("timezone"):
            parse_zone(given["timezone"])
    except ValueError as error:
        yield invalid(f"{path}.timezone", given["timezone"], str(error))
    if given.get("start") and given.get("start") == given.get("end"):
        yield invalid(f"{path}.end", given["end"], "must differ from start")


def number(text: str) -> float | None:
    """A finite number of at least 0; None for anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


@dataclass(frozen=True, slots=True)
class Reading:
    """What a trigger says at a moment.

    Attributes:
        value: its metric.
        target: what one pod should have of it (`average`), or all together.
        active: the target is needed at all.
        average: `target` is per pod.

    """

    value: float
    target: float
    active: bool
    average: bool = True


def of_cron(metadata: Mapping[str, str], now: float) -> Reading:
    """A cron trigger: within its window the wanted replicas, else nothing.

    Args:
        metadata: of a trigger without mistakes.
        now: seconds since 1970.

    """
    zone = parse_zone(metadata["timezone"])
    start = parse_schedule(metadata["start"]).next(now, zone)
    end = parse_schedule(metadata["end"]).next(now, zone)
    within = end is not None and (start is None or end < start)
    wanted = number(metadata["desiredReplicas"]) or 0.0
    return Reading(wanted if within else 0.0, 1.0, within)


def of_metric(trigger: ScaleTrigger, value: float) -> Reading:
    """A trigger whose metric has this value."""
    threshold = number(trigger.metadata.get("threshold", "")) or 1.0
    activation = number(trigger.metadata.get("activationThreshold", "")) or 0.0
    return Reading(value, threshold, value > activation, trigger.metric_type != "Value")
