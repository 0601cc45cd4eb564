"""Reads the nested arguments of resource-strategy-fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from unisono.engine.config.arguments import read_bool

MOST = "MostAllocated"
LEAST = "LeastAllocated"


@dataclass(frozen=True, slots=True)
class Strategy:
    """How one resource counts: ``type`` MOST or LEAST (``""``: not at all), and its weight."""

    type: str
    weight: int


Choices = dict[str, Strategy]


class Strategies:
    """Strategies by resource name; a name that ends in ``*`` stands for all that begin so, the longest wins."""

    def __init__(self, given: Mapping[str, object] | None) -> None:
        self.exact: Choices = {}
        self.prefixes: list[tuple[str, Strategy]] = []
        for name, entry in (given or {}).items():
            strategy = _strategy(entry)
            if "*" not in name:
                self.exact[name] = strategy
            elif name.index("*") == len(name) - 1 and len(name) > 1:
                self.prefixes.append((name[:-1], strategy))
        if not given:
            self.exact = {name: Strategy(LEAST, 1) for name in ("cpu", "memory")}
        self.prefixes.sort(key=lambda pair: -len(pair[0]))

    def of(self, requested: Iterable[str]) -> Choices:
        """Strategies of those requested resources that have one."""
        found: Choices = {}
        for name in requested:
            strategy = self.exact.get(name)
            if strategy is None:
                strategy = next((choice for prefix, choice in self.prefixes if name.startswith(prefix)), None)
            if strategy is not None:
                found[name] = strategy
        return found


def _strategy(entry: object) -> Strategy:
    """Unknown types count as LeastAllocated, weights that are not positive as 1."""
    given = entry if isinstance(entry, dict) else {}
    weight = int(number(given.get("weight"), 1))
    return Strategy(MOST if given.get("type") == MOST else LEAST, weight if weight > 0 else 1)


def section(given: Mapping[str, object] | None) -> Mapping[str, object]:
    """A block that is switched on by its ``enable``, else an empty one."""
    if not given or not isinstance(given.get("enable"), (bool, str)):
        return {}
    try:
        return given if read_bool(given["enable"]) else {}
    except KeyError:
        return {}


def names_in(text: object) -> list[str]:
    """Resource names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()] if isinstance(text, str) else []


def number(value: object, default: float) -> float:
    """A number, else the default."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else default
