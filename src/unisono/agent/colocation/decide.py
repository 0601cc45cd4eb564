"""What a node lends, how much CPU its offline pods get, and when one is evicted, by its settings. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from unisono.api.base import LabelSelector
from unisono.api.core import Node
from unisono.api.keys import (
    COLOCATION,
    EVICTING_CPU_HIGH,
    EVICTING_CPU_LOW,
    EVICTING_MEMORY_HIGH,
    EVICTING_MEMORY_LOW,
    OVERSUBSCRIPTION,
)
from unisono.api.selecting import selects
from unisono.errors import ConfigError

# How a node shares its machine between online and offline pods, as its administrator writes it. Pure.

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
    settings = Settings(
        colocation=lending or labels.get(COLOCATION) == "true",
        lends=frozenset(("cpu", "memory")) if lending else frozenset(),
    )
    for section in _sections(text, labels):
        settings = _with(settings, section, lending=lending)
    return _with_annotations(settings, node.metadata.annotations or {})


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
            "threshold": _checked_percent("cpuThrottlingThreshold", throttle.cpu_throttling_threshold),
            "jitter": _checked_percent("cpuJitterLimitPercent", throttle.cpu_jitter_limit_percent),
            "recover": _checked_percent("cpuRecoverLimitPercent", throttle.cpu_recover_limit_percent),
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


def _checked_percent(name: str, value: int | None) -> int | None:
    if value is not None and not 0 <= value <= 100:
        raise ConfigError(f"{name}: {value} is no percentage: write a number from 0 to 100.")
    return value


def _marks(name: str, before: Marks, high: int | None, low: int | None) -> Marks:
    marks = Marks(before.high if high is None else high, before.low if low is None else low)
    _checked_percent(f"{name} high watermark", marks.high)
    _checked_percent(f"{name} low watermark", marks.low)
    if marks.low >= marks.high:
        raise ConfigError(
            f"{name}: the low watermark {marks.low} is not below the high watermark {marks.high}: pods would be "
            "evicted and taken back in turn."
        )
    return marks


Resource = Literal["cpu", "memory"]

SAMPLES = 10
"""Of so many samples the amount that is lent is made; the newest weighs most."""
PATIENCE = 6
"""So many samples in a row must be above the high watermark before an offline pod is evicted."""
LEAST_CPU = 10
"""Milli-cores that offline pods keep: a process that gets no CPU at all cannot even end."""
_CHANGE = 0.1
_REPORTS = 6


@dataclass(frozen=True, slots=True)
class Use:
    """Amounts in use, CPU in milli-cores and memory in bytes.

    Attributes:
        cpu, memory: of the whole machine.
        offline_cpu, offline_memory: what of it offline pods use.
    """

    cpu: int
    memory: int
    offline_cpu: int = 0
    offline_memory: int = 0

    @property
    def online_cpu(self) -> int:
        """What all but offline pods use: online pods and the machine itself."""
        return max(0, self.cpu - self.offline_cpu)

    @property
    def online_memory(self) -> int:
        """What all but offline pods use."""
        return max(0, self.memory - self.offline_memory)


@dataclass(frozen=True, slots=True)
class Offer:
    """What the node offers, CPU in milli-cores and memory in bytes."""

    cpu: int
    memory: int


@dataclass(frozen=True, slots=True)
class Lending:
    """What is lent, and what it was made of.

    Attributes:
        samples: amounts of CPU and memory that could be lent, oldest first.
        told: what was reported last; None before the first report.
        since: samples since then.
    """

    samples: tuple[tuple[int, int], ...] = ()
    told: tuple[int, int] | None = None
    since: int = 0


def lend(state: Lending, use: Use, offer: Offer, settings: Settings, *, pressed: bool) -> tuple[Lending, bool]:
    """Take a sample.

    Args:
        state: the state after the sample before.
        use: what is in use now. What offline pods use does not count against what is lent to them.
        offer: what the node offers, without CPUs that pods have for themselves.
        settings: what is lent, and which part of it.
        pressed: offline pods are being evicted: nothing is lent until that is over.

    Returns:
        The next state, and whether ``told`` is to be reported: it changed by more than a tenth, or was not for a while.
    """
    free = (max(0, offer.cpu - use.online_cpu), max(0, offer.memory - use.online_memory))
    part = tuple(
        amount * settings.ratio // 100 if name in settings.lends else 0
        for name, amount in zip(("cpu", "memory"), free, strict=True)
    )
    samples = (*state.samples, (part[0], part[1]))[-SAMPLES:]
    weights = [2**index for index in range(len(samples))]
    value = tuple(
        0 if pressed else sum(w * s[i] for w, s in zip(weights, samples, strict=True)) // sum(weights) for i in (0, 1)
    )
    now = (value[0], value[1])
    due = state.told is None or state.since + 1 >= _REPORTS or any(map(_differs, state.told, now))
    return Lending(samples, now if due else state.told, 0 if due else state.since + 1), due


def _differs(old: int, new: int) -> bool:
    return abs(new - old) > _CHANGE * old


@dataclass(frozen=True, slots=True)
class Pressure:
    """Whether online pods need what offline ones have.

    Attributes:
        high: by resource, samples in a row above the high watermark.
        pressed: an offline pod was evicted, and use has not fallen to the low watermarks since.
    """

    high: Mapping[Resource, int] = field(default_factory=dict)
    pressed: bool = False


def press(state: Pressure, use: Use, offer: Offer, settings: Settings) -> tuple[Pressure, Resource | None]:
    """Take a sample.

    CPU that offline pods use is no pressure: they give it up at once. Memory is, until they end.

    Returns:
        The next state, and the resource for which one offline pod is to be evicted.
    """
    percent: dict[Resource, float] = {
        "cpu": _percent(use.online_cpu, offer.cpu),
        "memory": _percent(use.memory, offer.memory),
    }
    marks: dict[Resource, Marks] = {"cpu": settings.cpu, "memory": settings.memory}
    high: dict[Resource, int] = {
        name: min(state.high.get(name, 0) + 1, PATIENCE) if percent[name] >= marks[name].high else 0 for name in marks
    }
    # Memory first: where it ends the kernel kills, and not always whom it should.
    order: tuple[Resource, Resource] = ("memory", "cpu")
    short = next((name for name in order if high[name] >= PATIENCE), None)
    calm = all(percent[name] <= marks[name].low for name in marks)
    return Pressure(high, pressed=short is not None or (state.pressed and not calm)), short


def _percent(used: int, offered: int) -> float:
    return used * 100 / offered if offered > 0 else math.inf


@dataclass(frozen=True, slots=True)
class Candidate:
    """An offline pod that could be evicted; what it asks for in milli-cores and bytes."""

    uid: str
    cpu: int
    memory: int


def victim(resource: Resource, candidates: Sequence[Candidate]) -> str | None:
    """Whom to evict: who asks for most of the resource; None where there is none."""
    if not candidates:
        return None
    return max(candidates, key=lambda each: (each.cpu if resource == "cpu" else each.memory, each.uid)).uid


def bound(before: int | None, use: Use, offer: Offer, settings: Settings) -> int:
    """Milli-cores that offline pods may use together from now on.

    It falls at once, grows in steps, and small changes are not made.

    Args:
        before: the bound until now; None where there was none.
        use: what is in use now.
        offer: what the node offers.
        settings: thresholds.
    """
    least = min(LEAST_CPU, offer.cpu)
    target = max(least, offer.cpu * settings.threshold // 100 - use.online_cpu)
    if before is None:
        return target
    if target > before:
        target = min(target, before + max(1, offer.cpu * settings.recover // 100))
    small = abs(target - before) < offer.cpu * settings.jitter / 100
    return before if small and before <= offer.cpu else target


@dataclass(frozen=True, slots=True)
class CpuShare:
    """A container among which CPU is divided: its weight, and its own limit in milli-cores."""

    weight: int
    most: int | None = None


def divide(total: int, shares: Sequence[CpuShare]) -> list[int]:
    """Milli-cores for each container, by weight; what one may not use, others get. Each gets some."""
    given = [0] * len(shares)
    left, open_ = total, [index for index, each in enumerate(shares)]
    while open_:
        weights = sum(max(1, shares[i].weight) for i in open_)
        full = [i for i in open_ if _is_full(shares[i], left * max(1, shares[i].weight) / weights)]
        if not full:
            for i in open_:
                given[i] = int(left * max(1, shares[i].weight) / weights)
            break
        for i in full:
            given[i] = shares[i].most or 0
            left -= given[i]
        open_ = [i for i in open_ if i not in full]
    return [max(LEAST_CPU, each) for each in given]


def _is_full(share: CpuShare, part: float) -> bool:
    return share.most is not None and share.most <= part
