"""``keda.sh/v1alpha1``: ScaledObject, which scales by events and metrics, with the fields of KEDA's kind."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from unisono.api.base import Base, Condition, FreeObject, Int32, Natural, Object, Required, Time
from unisono.api.cron import parse_schedule, parse_zone
from unisono.api.field_error import FieldError, invalid, not_supported, required
from unisono.api.groups.autoscaling import HorizontalPodAutoscalerBehavior

MOST_TRIGGERS = 32


class ScaleTarget(Base):
    """What is scaled: an object of the same namespace with replicas; a Deployment without a kind."""

    name: Required = ""
    api_version: str | None = None
    kind: str | None = None
    env_source_container_name: str | None = None


class ScaleTrigger(Base):
    """One reason to scale.

    Attributes:
        type: such as ``prometheus`` or ``cron``.
        metadata: what the type needs, all as text.
        metric_type: ``AverageValue`` (per pod), ``Value`` or ``Utilization``.
    """

    type: Required = ""
    name: str | None = None
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    metric_type: str | None = None
    use_cached_metrics: bool | None = None
    authentication_ref: FreeObject | None = None


class Fallback(Base):
    """Replicas to go by when a trigger has failed so often in a row."""

    failure_threshold: Natural = 0
    replicas: Natural = 0
    behavior: str | None = None


class HpaConfig(Base):
    """What the HorizontalPodAutoscaler that is made gets besides."""

    name: str | None = None
    behavior: HorizontalPodAutoscalerBehavior | None = None


class AdvancedConfig(Base):
    """Rarely needed settings."""

    restore_to_original_replica_count: bool | None = None
    horizontal_pod_autoscaler_config: HpaConfig | None = None
    scaling_modifiers: FreeObject | None = None


class ScaledObjectSpec(Base):
    """What is scaled, by what, and between which bounds.

    Attributes:
        polling_interval: seconds between two looks at the triggers, 30 by default.
        cooldown_period: seconds after the last activity until the target is scaled to zero, 300 by default.
        idle_replica_count: replicas while no trigger is active; below ``min_replica_count``.
        min_replica_count: 0 by default; max_replica_count: 100 by default.
    """

    scale_target_ref: ScaleTarget = msgspec.field(default_factory=ScaleTarget)
    polling_interval: Int32 | None = None
    initial_cooldown_period: Int32 | None = None
    cooldown_period: Int32 | None = None
    idle_replica_count: Int32 | None = None
    min_replica_count: Int32 | None = None
    max_replica_count: Int32 | None = None
    advanced: AdvancedConfig | None = None
    triggers: list[ScaleTrigger] = msgspec.field(default_factory=list)
    fallback: Fallback | None = None


class ScaledObjectStatus(Base):
    """How the triggers stand."""

    scale_target_kind: str | None = None
    original_replica_count: Int32 | None = None
    last_active_time: Time | None = None
    external_metric_names: list[str] | None = None
    resource_metric_names: list[str] | None = None
    health: dict[str, Any] | None = None
    paused_replica_count: Int32 | None = None
    hpa_name: str | None = None
    triggers_types: str | None = None
    conditions: list[Condition] | None = None


class ScaledObject(Object):
    """Scales an object by triggers, to zero as well."""

    spec: ScaledObjectSpec = msgspec.field(default_factory=ScaledObjectSpec)
    status: ScaledObjectStatus = msgspec.field(default_factory=ScaledObjectStatus)


# Triggers of ScaledObjects: which types there are, what they need, and what they say (pure).

PROMETHEUS, CRON, CPU, MEMORY, REDIS = "prometheus", "cron", "cpu", "memory", "redis"
TYPES: Final = (CPU, CRON, MEMORY, PROMETHEUS, REDIS)
"""Those that are acted on here."""
LONGEST_QUERY: Final = 8192
_NEEDED: Mapping[str, tuple[str, ...]] = {
    PROMETHEUS: ("serverAddress", "query", "threshold"),
    CRON: ("timezone", "start", "end", "desiredReplicas"),
    CPU: ("value",),
    MEMORY: ("value",),
    REDIS: ("listName",),
}
_NUMBERS = (
    "threshold",
    "activationThreshold",
    "desiredReplicas",
    "value",
    "listLength",
    "activationListLength",
    "databaseIndex",
)
_REDIS_PORT = 6379
_LIST_LENGTH = 5.0
"""Entries of a list for one replica where a trigger does not say, as with KEDA."""
_SECRETS = ("password", "passwordFromEnv", "username", "usernameFromEnv", "enableTLS")
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
    if trigger.type == REDIS:
        yield from _redis(given, f"{path}.metadata")


def redis_address(given: Mapping[str, str]) -> tuple[str, int] | None:
    """Host and port of a Redis server, from ``address`` or ``host`` and ``port``; None where they name none."""
    host, _, port = (given.get("address") or "").rpartition(":")
    if not given.get("address"):
        host, port = given.get("host", ""), given.get("port") or str(_REDIS_PORT)
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        return None
    return host.strip("[]"), int(port)


def _redis(given: Mapping[str, str], path: str) -> Iterator[FieldError]:
    if redis_address(given) is None:
        yield invalid(f"{path}.address", given.get("address", ""), "must be host:port, such as redis:6379")
    name = given.get("listName", "")
    if len(name) > LONGEST_QUERY or not name.isprintable():
        yield invalid(f"{path}.listName", name[:100], f"must be printable, and at most {LONGEST_QUERY} characters")
    for key in _SECRETS:
        if given.get(key, "false") != "false":
            yield invalid(f"{path}.{key}", given[key], "servers with passwords or TLS are not asked here")
    if given.get("listLength") and number(given["listLength"]) == 0:
        yield invalid(f"{path}.listLength", given["listLength"], "must be greater than 0")


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
    replicas = number(metadata["desiredReplicas"]) or 0.0
    return Reading(replicas if within else 0.0, 1.0, within)


def of_metric(trigger: ScaleTrigger, value: float) -> Reading:
    """A trigger whose metric has this value."""
    names = ("listLength", "activationListLength") if trigger.type == REDIS else ("threshold", "activationThreshold")
    threshold, active = (number(trigger.metadata.get(name, "")) for name in names)
    target = threshold or (_LIST_LENGTH if trigger.type == REDIS else 1.0)
    return Reading(value, target, value > (active or 0.0), trigger.metric_type != "Value")
