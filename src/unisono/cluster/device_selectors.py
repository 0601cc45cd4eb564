"""Device selectors: CEL over ``device``, asked once per kind of device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

from unisono.api.cel import (
    Budget,
    CompileError,
    CostError,
    EvaluationError,
    MissingError,
    Program,
    Quantity,
    Semver,
    compile_expression,
)
from unisono.api.core import Device
from unisono.api.quantity import parse_quantity

VARIABLES = frozenset(("device",))
# All questions of one selector may cost this much, and as much more for each device.
_AT_LEAST, _PER_DEVICE = 1_000_000, 200
_MOST_KNOWN = 20_000


class SelectorError(ValueError):
    """A selector that cannot be read, or that has no answer for a device."""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceFacts:
    """What selectors see of a device.

    Attributes:
        key: equal for devices that selectors cannot tell apart.
        driver: of the device.
        attributes: values by domain and name.
        capacity: amounts by domain and name.
        shared: several claims may use it.

    """

    key: bytes
    driver: str
    attributes: Mapping[str, Mapping[str, Any]]
    capacity: Mapping[str, Mapping[str, Any]]
    shared: bool = False
    variables: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        device = {
            "driver": self.driver,
            "attributes": _Domains(self.attributes),
            "capacity": _Domains(self.capacity),
            "allowMultipleAllocations": self.shared,
        }
        object.__setattr__(self, "variables", {"device": device})


class _Domains(dict[str, Any]):
    """Every domain exists, an unknown one is empty."""

    def __missing__(self, key: str) -> dict[str, Any]:
        return {}


class Selector:
    """One compiled selector and what it has answered.

    A device without the attribute that the selector looks at is not selected; in Kubernetes it ends the search.
    """

    __slots__ = ("_asked", "_known", "_program", "_spent", "_trouble")

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[bytes, bool | str] = {}
        self._asked = self._spent = 0
        self._trouble = ""

    def selects(self, device: DeviceFacts) -> bool:
        """Whether a device is meant.

        Raises:
            SelectorError: the selector has no answer, or has cost too much for all devices together.

        """
        found = self._known.get(device.key)
        if found is None:
            found = self._ask(device)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[device.key] = found
        if isinstance(found, str):
            raise SelectorError(found)
        return found

    def _ask(self, device: DeviceFacts) -> bool | str:
        if self._trouble:
            return self._trouble
        self._asked += 1
        budget = Budget(_AT_LEAST + _PER_DEVICE * self._asked - self._spent)
        before = budget.left
        try:
            found = self._program.evaluate(device.variables, budget)
        except MissingError:
            return False
        except EvaluationError as error:
            return f"a device selector failed: {error}"
        except CostError as error:
            self._trouble = f"a device selector failed: {error}"
            return self._trouble
        finally:
            self._spent += before - budget.left
        return found if isinstance(found, bool) else "a device selector failed: it must answer a bool"


@lru_cache(maxsize=256)
def compile_selector(text: str) -> Selector:
    """Read a selector.

    Raises:
        SelectorError: it cannot be compiled.

    """
    try:
        return Selector(compile_expression(text, VARIABLES))
    except CompileError as error:
        raise SelectorError(f"a device selector cannot be compiled: {error}") from None


def facts_of(driver: str, device: Device, key: bytes) -> DeviceFacts:
    """Attributes and capacity by domain; names without one belong to the driver's.

    Args:
        driver: of the device.
        device: as its slice has it.
        key: equal for devices that selectors cannot tell apart.

    """
    attributes: dict[str, dict[str, Any]] = {}
    for name, value in (device.attributes or {}).items():
        domain, short = _qualified(name, driver)
        attributes.setdefault(domain, {})[short] = _value(value)
    capacity: dict[str, dict[str, Quantity]] = {}
    for name, amount in (device.capacity or {}).items():
        domain, short = _qualified(name, driver)
        capacity.setdefault(domain, {})[short] = Quantity(Fraction(parse_quantity(amount.value)))
    return DeviceFacts(key, driver, attributes, capacity, bool(device.allow_multiple_allocations))


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, short = name.partition("/")
    return (domain, short) if slash else (driver, name)


def _value(value: Any) -> Any:
    if value.int_value is not None:
        return value.int_value
    if value.bool_value is not None:
        return value.bool_value
    return value.string_value if value.string_value is not None else _version(value.version_value)


def _version(text: str | None) -> Any:
    try:
        return Semver.parse(text or "")
    except EvaluationError:
        return text
