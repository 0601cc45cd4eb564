"""Devices of simulated nodes as users write them. Pure.

::

    devices: {gpu.nvidia.com: 8}           # 8 devices gpu-0 ... gpu-7 of this driver, and a DeviceClass of its name

    devices:
      - driver: gpu.nvidia.com
        count: 8
        attributes: {productName: H100, cudaComputeCapability: {version: 9.0.0}}
        capacity: {memory: 80Gi}
"""

from __future__ import annotations

import re
from typing import Any

from unisono.agent.devices.slices import MOST_DEVICES, NVIDIA
from unisono.api.core import Device, DeviceAttribute, DeviceCapacity
from unisono.api.fields import NAME_PATTERN
from unisono.api.quantity import QuantityError, parse_quantity
from unisono.errors import ConfigError

_FIELDS = ("driver", "count", "attributes", "capacity")
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
    found: dict[str, tuple[Device, ...]] = {}
    for index, item in enumerate(value):
        at = f"{where}[{index}]"
        if not isinstance(item, dict):
            raise ConfigError(f"{at}: write an entry as driver, count, attributes and capacity.", file=file)
        for key in item:
            if key not in _FIELDS:
                text = f"{at}.{key}: unknown field; known are {', '.join(_FIELDS)}."
                raise ConfigError(text, file=file, key=str(key))
        driver = _driver(item.get("driver"), f"{at}.driver", file)
        before = found.get(driver, ())
        number = _count(item.get("count", 1), f"{at}.count", file)
        if len(before) + number > MOST_DEVICES:
            text = f"{at}.count: a node has at most {MOST_DEVICES} devices of a driver."
            raise ConfigError(text, file=file, key="count")
        attributes = _attributes(item.get("attributes") or {}, f"{at}.attributes", file)
        capacity = _capacity(item.get("capacity") or {}, f"{at}.capacity", file)
        found[driver] = (*before, *_devices(driver, len(before), number, attributes, capacity))
    return found


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


def _count(value: Any, where: str, file: str) -> int:
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


def _capacity(value: Any, where: str, file: str) -> dict[str, DeviceCapacity]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: write capacity as name: amount.", file=file, key="capacity")
    found = {}
    for name, amount in value.items():
        try:
            parse_quantity(amount)
        except (QuantityError, TypeError) as error:
            raise ConfigError(f"{where}.{name}: {error}.", file=file, key=str(name)) from error
        found[str(name)] = DeviceCapacity(value=amount)
    return found
