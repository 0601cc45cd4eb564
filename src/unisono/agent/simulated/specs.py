"""Groups of simulated nodes as users write them. Pure.

::

    - name: gpu            # nodes gpu-0 ... gpu-15
      count: 16
      capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8}
      labels: {zone: a}
      taints: [{key: dedicated, value: training, effect: NoSchedule}]
      devices: {gpu.nvidia.com: 8}    # for resource claims; see ``devices.py`` beside this file for more
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from unisono.agent.simulated.devices import parse_devices
from unisono.api.core import Device, Taint
from unisono.api.fields import NAME_PATTERN
from unisono.api.quantity import QuantityError
from unisono.api.resources import to_units, to_wire
from unisono.errors import ConfigError

_FIELDS = ("name", "count", "capacity", "labels", "taints", "devices")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_DEFAULT_PODS = 110
_MAX_NODES = 100_000


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """Equal simulated nodes; ``capacity`` in engine units, ``devices`` by driver."""

    name: str
    count: int
    capacity: dict[str, int]
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    devices: Mapping[str, tuple[Device, ...]] = field(default_factory=dict)

    def node_names(self) -> Iterator[str]:
        """``name-0`` to ``name-(count-1)``; the bare name for a single node."""
        if self.count == 1:
            yield self.name
            return
        for index in range(self.count):
            yield f"{self.name}-{index}"

    def wire_capacity(self) -> dict[str, str]:
        """The capacity as quantities."""
        return to_wire(self.capacity)


def parse_specs(value: Any, file: str = "") -> list[NodeSpec]:
    """Check a list of groups as it comes from YAML or JSON.

    Args:
        value: the decoded document.
        file: named in errors.

    Raises:
        ConfigError: names the group and the field that is wrong.
    """
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise ConfigError("Give a list of simulated nodes, each with name, count and capacity.", file=file)
    groups = [_group(item, f"[{index}]", file) for index, item in enumerate(value)]
    seen: dict[str, str] = {}
    for group in groups:
        for name in group.node_names():
            if name in seen:
                raise ConfigError(f"Two groups make a node named {name}: choose other names.", file=file, key="name")
            seen[name] = group.name
    if len(seen) > _MAX_NODES:
        raise ConfigError(f"{len(seen)} nodes are too many: at most {_MAX_NODES}.", file=file, key="count")
    return groups


def _group(item: Any, where: str, file: str) -> NodeSpec:
    if not isinstance(item, dict):
        raise ConfigError(f"{where}: write a group as name, count and capacity.", file=file)
    for key in item:
        if key not in _FIELDS:
            raise ConfigError(f"{where}.{key}: unknown field; known are {', '.join(_FIELDS)}.", file=file, key=str(key))
    return NodeSpec(
        name=_name(item.get("name"), f"{where}.name", file),
        count=_count(item.get("count", 1), f"{where}.count", file),
        capacity=_capacity(item.get("capacity"), f"{where}.capacity", file),
        labels=_labels(item.get("labels") or {}, f"{where}.labels", file),
        taints=_taints(item.get("taints") or [], f"{where}.taints", file),
        devices=parse_devices(item.get("devices") or {}, f"{where}.devices", file),
    )


def _name(value: Any, where: str, file: str) -> str:
    if not isinstance(value, str) or not re.fullmatch(NAME_PATTERN, value) or len(value) > 240:
        raise ConfigError(
            f"{where}: {value!r} is not a node name: use lower-case letters, digits, '-' and '.'.",
            file=file,
            key="name",
        )
    return value


def _count(value: Any, where: str, file: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MAX_NODES:
        raise ConfigError(f"{where}: {value!r} is not a number from 1 to {_MAX_NODES}.", file=file, key="count")
    return value


def _capacity(value: Any, where: str, file: str) -> dict[str, int]:
    if not isinstance(value, dict) or not value:
        raise ConfigError(f"{where}: give at least cpu and memory.", file=file, key="capacity")
    capacity = {"pods": _DEFAULT_PODS}
    for name, amount in value.items():
        try:
            capacity[str(name)] = to_units(str(name), amount)
        except QuantityError as error:
            raise ConfigError(f"{where}.{name}: {error}.", file=file, key=str(name)) from error
        if capacity[str(name)] < 0:
            raise ConfigError(f"{where}.{name}: {amount!r} is negative.", file=file, key=str(name))
    for name in ("cpu", "memory"):
        if name not in capacity:
            raise ConfigError(f"{where}.{name}: is missing.", file=file, key=name)
    return capacity


def _labels(value: Any, where: str, file: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: write labels as name: value.", file=file, key="labels")
    for name, text in value.items():
        if not isinstance(text, str):
            raise ConfigError(f"{where}.{name}: {text!r} is not a text: put it in quotes.", file=file, key=str(name))
    return {str(name): text for name, text in value.items()}


def _taints(value: Any, where: str, file: str) -> tuple[Taint, ...]:
    try:
        taints = msgspec.convert(value, list[Taint])
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}.", file=file, key="taints") from error
    for index, taint in enumerate(taints):
        if not taint.key or taint.effect not in _EFFECTS:
            raise ConfigError(
                f"{where}[{index}]: give key and effect; effects are {', '.join(_EFFECTS)}.", file=file, key="taints"
            )
    return tuple(taints)
