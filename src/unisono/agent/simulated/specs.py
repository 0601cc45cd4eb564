"""Groups of simulated nodes as users write them. Pure.

::

    - name: gpu            # nodes gpu-0 ... gpu-15
      count: 16
      capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8}
      labels: {zone: a}
      taints: [{key: dedicated, value: training, effect: NoSchedule}]
      devices: {gpu.nvidia.com: 8}    # for resource claims; see ``devices.py`` beside this file for more
    - name: burst          # machines on demand: a MachineDeployment that node scaling changes
      min: 0
      max: 20
      price: 32.8
      spot: true
      bootSeconds: 60
      capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8}
"""

from __future__ import annotations

import heapq
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from unisono.agent.devices.slices import MOST_DEVICES, NVIDIA
from unisono.agent.lifecycle import ContainerView, Exit, PodView, Reason
from unisono.api import core
from unisono.api.annotations import EXIT_CODE, RUN_SECONDS
from unisono.api.base import NAME_PATTERN, ObjectMeta
from unisono.api.core import Device, DeviceAttribute, DeviceCapacity, Node, Pod, Taint
from unisono.api.keys import HOSTNAME
from unisono.api.kinds import NODES
from unisono.api.quantity import QuantityError, parse_quantity
from unisono.api.resources import to_units, to_wire
from unisono.api.validation import validate
from unisono.errors import ConfigError
from unisono.kube.clock import Clock, Timer

# Devices of simulated nodes as users write them. Pure.
#
# ::
#
#     devices: {gpu.nvidia.com: 8}           # 8 devices gpu-0 ... gpu-7 of this driver, and a DeviceClass of its name
#
#     devices:
#       - driver: gpu.nvidia.com
#         count: 8
#         attributes: {productName: H100, cudaComputeCapability: {version: 9.0.0}}
#         capacity: {memory: 80Gi}

_DEVICE_FIELDS = ("driver", "count", "attributes", "capacity")
_LONGEST_DRIVER = 63


def parse_devices(value: Any, where: str, file: str = "") -> dict[str, tuple[Device, ...]]:
    """Check what a group of nodes says of its devices.

    Args:
        value: the decoded field: numbers by driver, or a list of entries.
        where: path of the field, for errors.
        file: named in errors.

    Returns:
        The devices of each of the nodes by driver.

    Raises:
        ConfigError: names the field that is wrong.
    """
    if isinstance(value, dict):
        value = [{"driver": driver, "count": count} for driver, count in value.items()]
    if not isinstance(value, list):
        raise ConfigError(f"{where}: write devices as driver: number, or as a list.", file=file, key="devices")
    devices_by_driver: dict[str, tuple[Device, ...]] = {}
    for index, item in enumerate(value):
        at = f"{where}[{index}]"
        if not isinstance(item, dict):
            raise ConfigError(f"{at}: write an entry as driver, count, attributes and capacity.", file=file)
        for key in item:
            if key not in _DEVICE_FIELDS:
                text = f"{at}.{key}: unknown field; known are {', '.join(_DEVICE_FIELDS)}."
                raise ConfigError(text, file=file, key=str(key))
        driver = _driver(item.get("driver"), f"{at}.driver", file)
        before = devices_by_driver.get(driver, ())
        number = _device_count(item.get("count", 1), f"{at}.count", file)
        if len(before) + number > MOST_DEVICES:
            text = f"{at}.count: a node has at most {MOST_DEVICES} devices of a driver."
            raise ConfigError(text, file=file, key="count")
        attributes = _attributes(item.get("attributes") or {}, f"{at}.attributes", file)
        capacity = _device_capacity(item.get("capacity") or {}, f"{at}.capacity", file)
        devices_by_driver[driver] = (*before, *_devices(driver, len(before), number, attributes, capacity))
    return devices_by_driver


def _devices(
    driver: str, first: int, number: int, attributes: dict[str, DeviceAttribute], capacity: dict[str, DeviceCapacity]
) -> list[Device]:
    stem = "gpu" if driver == NVIDIA else "device"
    own = {"type": DeviceAttribute(string_value="gpu")} if driver == NVIDIA else {}
    return [
        Device(
            name=f"{stem}-{index}",
            attributes={**own, "index": DeviceAttribute(int_value=index), **attributes},
            capacity=capacity or None,
        )
        for index in range(first, first + number)
    ]


def _driver(value: Any, where: str, file: str) -> str:
    if not isinstance(value, str) or not re.fullmatch(NAME_PATTERN, value) or len(value) > _LONGEST_DRIVER:
        text = f"{where}: {value!r} is not the name of a driver: use lower-case letters, digits, '-' and '.'."
        raise ConfigError(text, file=file, key="driver")
    return value


def _device_count(value: Any, where: str, file: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_DEVICES:
        raise ConfigError(f"{where}: {value!r} is not a number from 1 to {MOST_DEVICES}.", file=file, key="count")
    return value


def _attributes(value: Any, where: str, file: str) -> dict[str, DeviceAttribute]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: write attributes as name: value.", file=file, key="attributes")
    return {str(name): _attribute(given, f"{where}.{name}", file) for name, given in value.items()}


def _attribute(value: Any, where: str, file: str) -> DeviceAttribute:
    match value:
        case bool():
            return DeviceAttribute(bool_value=value)
        case int():
            return DeviceAttribute(int_value=value)
        case str():
            return DeviceAttribute(string_value=value)
        case {"version": str() as version} if len(value) == 1:
            return DeviceAttribute(version_value=version)
    text = f"{where}: {value!r} is not a text, a whole number, true or false, or {{version: 1.2.3}}."
    raise ConfigError(text, file=file, key="attributes")


def _device_capacity(value: Any, where: str, file: str) -> dict[str, DeviceCapacity]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: write capacity as name: amount.", file=file, key="capacity")
    capacities = {}
    for name, amount in value.items():
        try:
            parse_quantity(amount)
        except (QuantityError, TypeError) as error:
            raise ConfigError(f"{where}.{name}: {error}.", file=file, key=str(name)) from error
        capacities[str(name)] = DeviceCapacity(value=amount)
    return capacities


_CLOUD_FIELDS = ("min", "max", "price", "spot", "bootSeconds")
_FIELDS = ("name", "count", "capacity", "labels", "taints", "devices", *_CLOUD_FIELDS)
_PLAIN = ("cpu", "memory", "pods", "ephemeral-storage")
_BOOT_SECONDS, _LONGEST_BOOT = 60.0, 86_400.0
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_DEFAULT_PODS = 110
_MAX_NODES = 100_000


@dataclass(frozen=True, slots=True)
class CloudSpec:
    """Machines on demand: from ``least`` to ``most`` of them, each there ``boot_seconds`` after it was asked for."""

    least: int
    most: int
    price: float | None = None
    spot: bool = False
    boot_seconds: float = _BOOT_SECONDS


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """Equal simulated nodes; ``capacity`` in engine units, ``devices`` by driver.

    With ``cloud`` there are none of them at first: a simulated cloud makes them.
    """

    name: str
    count: int
    capacity: dict[str, int]
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    devices: Mapping[str, tuple[Device, ...]] = field(default_factory=dict)
    cloud: CloudSpec | None = None

    def node_names(self) -> Iterator[str]:
        """``name-0`` to ``name-(count-1)``; the bare name for a single node."""
        if self.cloud is not None:
            return
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
    spec = NodeSpec(
        name=_name(item.get("name"), f"{where}.name", file),
        count=_count(item.get("count", 1), f"{where}.count", file),
        capacity=_capacity(item.get("capacity"), f"{where}.capacity", file),
        labels=_labels(item.get("labels") or {}, f"{where}.labels", file),
        taints=_taints(item.get("taints") or [], f"{where}.taints", file),
        devices=parse_devices(item.get("devices") or {}, f"{where}.devices", file),
    )
    if any(key in item for key in _CLOUD_FIELDS):
        spec = replace(spec, cloud=_cloud(item, spec, where, file))
    _check_node(spec, where, file)
    return spec


def _check_node(spec: NodeSpec, where: str, file: str) -> None:
    """What the API would refuse is told here: afterwards the node would be registered in vain for ever."""
    most = (spec.cloud.most if spec.cloud else spec.count) - 1
    name = f"{spec.name}-{most}" if most > 0 else spec.name
    meta = ObjectMeta(name=name, labels={HOSTNAME: name, **spec.labels})
    node = Node(metadata=meta, spec=core.NodeSpec(taints=list(spec.taints) or None))
    for error in validate(NODES, node):
        raise ConfigError(f"{where}: the node {name} would be refused: {error.message()}.", file=file, key="name")


def _cloud(item: dict[Any, Any], spec: NodeSpec, where: str, file: str) -> CloudSpec:
    def number(key: str, default: float | None, most: float) -> float:
        value = item.get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= most:
            raise ConfigError(f"{where}.{key}: {value!r} is not a number from 0 to {most:g}.", file=file, key=key)
        return value

    def whole(key: str, default: int | None) -> int:
        value = number(key, default, _MAX_NODES)
        if not isinstance(value, int):
            raise ConfigError(f"{where}.{key}: {value!r} is not a whole number.", file=file, key=key)
        return value

    if "count" in item or "devices" in item:
        key = "count" if "count" in item else "devices"
        raise ConfigError(f"{where}.{key}: a group with min and max has none.", file=file, key=key)
    if len([name for name in spec.capacity if name not in _PLAIN]) > 1:
        text = f"{where}.capacity: a group with min and max has one kind of device at most."
        raise ConfigError(text, file=file, key="capacity")
    least, most = whole("min", 0), whole("max", None)
    if least > most:
        raise ConfigError(f"{where}.min: {least} is more than max, {most}.", file=file, key="min")
    if not isinstance(spot := item.get("spot", False), bool):
        raise ConfigError(f"{where}.spot: write true or false.", file=file, key="spot")
    price = number("price", None, 1e9) if "price" in item else None
    return CloudSpec(least, most, price, spot, number("bootSeconds", _BOOT_SECONDS, _LONGEST_BOOT))


def _name(value: Any, where: str, file: str) -> str:
    if isinstance(value, bool | int | float):
        raise ConfigError(f"{where}: {_unquoted(value)}: put the name in quotes.", file=file, key="name")
    if not isinstance(value, str) or not re.fullmatch(NAME_PATTERN, value) or len(value) > 240:
        raise ConfigError(
            f"{where}: {value!r} is not a node name: use lower-case letters, digits, '-' and '.'.",
            file=file,
            key="name",
        )
    return value


def _unquoted(value: float) -> str:
    """What YAML made of a text without quotes."""
    if isinstance(value, bool):
        words = "y, yes, on and true" if value else "n, no, off and false"
        return f"YAML reads {words} without quotes as the boolean {str(value).lower()}"
    return f"YAML reads {value} without quotes as a number"


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
        if isinstance(text, bool | int | float):
            raise ConfigError(f"{where}.{name}: {_unquoted(text)}: put it in quotes.", file=file, key=str(name))
        if not isinstance(text, str):
            raise ConfigError(f"{where}.{name}: {text!r} is not a text.", file=file, key=str(name))
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


# How a simulated pod goes: what its annotations say, and how it looks at a time.

# One timer for the ends of all simulated pods.


@dataclass(slots=True)
class Alarms:
    """One timer for all pods: a heap of (time, key)."""

    clock: Clock
    wake: Callable[[str], None]
    heap: list[tuple[float, int, str]] = field(default_factory=list)
    serial: itertools.count[int] = field(default_factory=itertools.count)
    timer: Timer | None = None

    def at(self, when: float, key: str) -> None:
        """Wake ``key`` at ``when``."""
        first = not self.heap or when < self.heap[0][0]
        heapq.heappush(self.heap, (when, next(self.serial), key))
        if first:
            self._arm()

    def _arm(self) -> None:
        self.close()
        if self.heap:
            self.timer = self.clock.call_later(max(0.0, self.heap[0][0] - self.clock.time()), self._ring)

    def _ring(self) -> None:
        self.timer = None
        while self.heap and self.heap[0][0] <= self.clock.time():
            self.wake(heapq.heappop(self.heap)[2])
        self._arm()

    def close(self) -> None:
        """Stop waking callers."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


_TERMINATED = 143


@dataclass(frozen=True, slots=True)
class Script:
    """How a simulated pod goes: seconds (infinite: until deleted) and exit code."""

    seconds: float
    exit_code: int


def script_of(pod: Pod) -> Script:
    """What the pod's annotations say; values that are not numbers count as absent."""
    annotations = pod.metadata.annotations or {}
    seconds = _number(annotations.get(RUN_SECONDS), math.inf)
    return Script(max(0.0, seconds), int(_number(annotations.get(EXIT_CODE), 0)) & 0xFF)


def simulated_view(pod: Pod, started_at: float, now: float) -> PodView:
    """A pod as if its containers had run since ``started_at``: all main containers end together by the script.

    Init containers are done at once, and containers are not started again: a simulated pod goes through its script
    once, whatever its restart policy.
    """
    script = script_of(pod)
    end, failure, ended = end_of(pod, started_at), None, None
    if now >= end:
        ended = Exit(script.exit_code, started_at, end)
        if end < started_at + script.seconds:
            ended = Exit(_TERMINATED, started_at, end, 15)
            failure = Reason("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
    done = Exit(0, started_at, started_at)
    inits = [
        ContainerView(c.name, "init", "exited", runs=1, started_at=started_at, last=done)
        for c in pod.spec.init_containers or ()
    ]
    deleting = pod.metadata.deletion_timestamp is not None
    if deleting and ended is None:
        ended = Exit(_TERMINATED, started_at, now, 15)
    mains = [
        ContainerView(
            c.name, "main", "running" if ended is None else "exited", runs=1, started_at=started_at, last=ended
        )
        for c in pod.spec.containers or ()
    ]
    return PodView(
        name=pod.metadata.name, restart_policy="Never", containers=(*inits, *mains), deleting=deleting, failure=failure
    )


def refused(pod: Pod, why: Reason) -> PodView:
    """A pod that the node does not take."""
    return PodView(name=pod.metadata.name, restart_policy="Never", containers=(), failure=why, rejected=True)


def end_of(pod: Pod, started_at: float) -> float:
    """When the pod ends by its script or by its deadline, whichever comes first."""
    deadline = pod.spec.active_deadline_seconds
    return started_at + min(script_of(pod).seconds, math.inf if deadline is None else deadline)


def _number(text: str | None, default: float) -> float:
    try:
        value = float(text) if text is not None else default
    except ValueError:
        return default
    return default if math.isnan(value) else value
