"""How a node shares its machine between online and offline pods, as its administrator writes it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from unisono.api.core import Node
from unisono.api.keys import (
    COLOCATION,
    EVICTING_CPU_HIGH,
    EVICTING_CPU_LOW,
    EVICTING_MEMORY_HIGH,
    EVICTING_MEMORY_LOW,
    OVERSUBSCRIPTION,
)
from unisono.api.meta import LabelSelector
from unisono.api.selecting import selects
from unisono.errors import ConfigError

CONFIG_NAME, CONFIG_KEY = "volcano-agent-configuration", "colocation-config"
"""ConfigMap of namespace volcano-system, and the key in it."""
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Marks:
    """Eviction of offline pods begins at ``high`` and ends at ``low`` percent of what the node offers."""

    high: int
    low: int


@dataclass(frozen=True, slots=True)
class Settings:
    """What a node does; amounts in percent of what it offers.

    Attributes:
        colocation: offline pods give way to online ones.
        lends: resources that are lent to offline pods: ``cpu``, ``memory``.
        ratio: part of what is unused that is lent.
        throttles: whether the CPU of offline pods is bounded.
        threshold: of all CPUs, what online and offline pods may use together before offline ones are bounded.
        jitter: smaller changes of the bound are not made.
        recover: the bound grows by no more at a time.
        marks: by resource.
    """

    colocation: bool = False
    lends: frozenset[str] = frozenset()
    ratio: int = 60
    throttles: bool = True
    threshold: int = 80
    jitter: int = 1
    recover: int = 10
    cpu: Marks = Marks(80, 30)
    memory: Marks = Marks(60, 30)


class _Throttling(msgspec.Struct, rename="camel"):
    enable: bool | None = None
    cpu_throttling_threshold: int | None = None
    cpu_jitter_limit_percent: int | None = None
    cpu_recover_limit_percent: int | None = None


class _Lending(msgspec.Struct, rename="camel"):
    enable: bool | None = None
    over_subscription_types: str | None = None


class _Evicting(msgspec.Struct):
    evictingCPUHighWatermark: int | None = None  # noqa: N815
    evictingCPULowWatermark: int | None = None  # noqa: N815
    evictingMemoryHighWatermark: int | None = None  # noqa: N815
    evictingMemoryLowWatermark: int | None = None  # noqa: N815


class _Section(msgspec.Struct, rename="camel"):
    selector: LabelSelector | None = None
    cpu_throttling_config: _Throttling | None = None
    over_subscription_config: _Lending | None = None
    evicting_config: _Evicting | None = None


class _File(msgspec.Struct, rename="camel"):
    global_config: _Section | None = None
    nodes_config: list[_Section] | None = None


def settings_of(node: Node, text: str = "") -> Settings:
    """What one node does.

    Args:
        node: its labels switch co-location on; its annotations may set the watermarks.
        text: the configuration as JSON; empty is the default one.

    Raises:
        ConfigError: the text or an annotation cannot be read.
    """
    labels = node.metadata.labels or {}
    lending = labels.get(OVERSUBSCRIPTION) == "true"
    found = Settings(
        colocation=lending or labels.get(COLOCATION) == "true",
        lends=frozenset(("cpu", "memory")) if lending else frozenset(),
    )
    for section in _sections(text, labels):
        found = _with(found, section, lending=lending)
    return _with_annotations(found, node.metadata.annotations or {})


def _sections(text: str, labels: Mapping[str, str]) -> list[_Section]:
    """The global section and those that select the node, in the order in which they apply."""
    if not text.strip():
        return []
    if len(text) > _MOST_BYTES:
        raise ConfigError(f"{CONFIG_KEY} has {len(text)} characters; at most {_MOST_BYTES} are read.")
    try:
        read = msgspec.json.decode(text, type=_File)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{CONFIG_KEY} cannot be read: {error}.") from None
    chosen = [each for each in read.nodes_config or () if each.selector and selects(each.selector, labels)]
    return [*([read.global_config] if read.global_config else []), *chosen]


def _with(found: Settings, section: _Section, *, lending: bool) -> Settings:
    changes: dict[str, Any] = {}
    if (lends := section.over_subscription_config) is not None:
        if lends.enable is False:
            changes["lends"] = frozenset()
        elif lends.over_subscription_types is not None and lending:
            changes["lends"] = _types(lends.over_subscription_types)
    if (throttle := section.cpu_throttling_config) is not None:
        named = {
            "throttles": throttle.enable,
            "threshold": _percent("cpuThrottlingThreshold", throttle.cpu_throttling_threshold),
            "jitter": _percent("cpuJitterLimitPercent", throttle.cpu_jitter_limit_percent),
            "recover": _percent("cpuRecoverLimitPercent", throttle.cpu_recover_limit_percent),
        }
        changes |= {name: value for name, value in named.items() if value is not None}
    if (evicting := section.evicting_config) is not None:
        changes["cpu"] = _marks(
            "evictingCPU", found.cpu, evicting.evictingCPUHighWatermark, evicting.evictingCPULowWatermark
        )
        changes["memory"] = _marks(
            "evictingMemory", found.memory, evicting.evictingMemoryHighWatermark, evicting.evictingMemoryLowWatermark
        )
    return replace(found, **changes)


def _with_annotations(found: Settings, annotations: Mapping[str, str]) -> Settings:
    def number(key: str) -> int | None:
        text = annotations.get(key)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= 3):
            raise ConfigError(f"Annotation {key}: {text[:40]!r} is no percentage: write a whole number from 0 to 100.")
        return int(text)

    return replace(
        found,
        cpu=_marks("annotation of the CPU", found.cpu, number(EVICTING_CPU_HIGH), number(EVICTING_CPU_LOW)),
        memory=_marks(
            "annotation of the memory", found.memory, number(EVICTING_MEMORY_HIGH), number(EVICTING_MEMORY_LOW)
        ),
    )


def _types(text: str) -> frozenset[str]:
    names = frozenset(part.strip() for part in text.split(",") if part.strip())
    if unknown := names - {"cpu", "memory"}:
        raise ConfigError(f"overSubscriptionTypes: {min(unknown)[:40]!r} is unknown; cpu and memory can be lent.")
    return names


def _percent(name: str, value: int | None) -> int | None:
    if value is not None and not 0 <= value <= 100:
        raise ConfigError(f"{name}: {value} is no percentage: write a number from 0 to 100.")
    return value


def _marks(name: str, before: Marks, high: int | None, low: int | None) -> Marks:
    marks = Marks(before.high if high is None else high, before.low if low is None else low)
    _percent(f"{name} high watermark", marks.high)
    _percent(f"{name} low watermark", marks.low)
    if marks.low >= marks.high:
        raise ConfigError(
            f"{name}: the low watermark {marks.low} is not below the high watermark {marks.high}: pods would be "
            "evicted and taken back in turn."
        )
    return marks
