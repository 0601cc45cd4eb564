"""A network described in a file as Slurm's ``topology.conf``: switches with their nodes or switches below (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from unisono.api.base import ObjectMeta
from unisono.api.groups.topology import HyperNode, HyperNodeSpec
from unisono.api.topology_sources import Switch
from unisono.controllers.hypernode.discovery import SOURCE, member

FILE_SOURCE = "file"
MOST_NAMES = 100_000
"""Names that a file may list, of nodes and switches together."""
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LONGEST_LINE = 65_536


class TopologyError(ValueError):
    """A line that cannot be read; the text says which and why."""


def read_switches(text: str) -> dict[str, Switch]:
    """The switches of a file by name.

    Raises:
        TopologyError: a line is not understood, a switch is listed twice or does not exist, or they form a circle.

    """
    found: dict[str, Switch] = {}
    budget = MOST_NAMES
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        given = {key.lower(): value for key, _, value in (word.partition("=") for word in words)}
        unknown = given.keys() - {"switchname", "nodes", "switches", "linkspeed"}
        if unknown or not given.get("switchname") or len(line) > _LONGEST_LINE:
            what = f"unknown key {min(unknown)}" if unknown else "SwitchName=NAME is missing, or the line is too long"
            raise TopologyError(f"line {number}: {what}")
        try:
            names = list(_expanded(given["switchname"], budget))
            nodes, below = (tuple(_expanded(given.get(key, ""), budget)) for key in ("nodes", "switches"))
        except ValueError as error:
            raise TopologyError(f"line {number}: {error}") from error
        budget -= len(names) + len(nodes) + len(below)
        if budget < 0:
            raise TopologyError(f"line {number}: a file may list {MOST_NAMES} names at most")
        for name in names:
            if name in found:
                raise TopologyError(f"line {number}: switch {name} is listed twice")
            found[name] = Switch(nodes, below)
    for name, switch in found.items():
        missing = next((each for each in switch.switches if each not in found), None)
        if missing is not None:
            raise TopologyError(f"switch {name} names switch {missing}, which is not listed")
    return found


def tiers_of(switches: Mapping[str, Switch]) -> dict[str, int]:
    """1 for switches that have nodes alone, and one more than the highest below for others.

    Raises:
        TopologyError: switches are below each other in a circle.

    """
    found: dict[str, int] = {}
    left = dict(switches)
    while left:
        done = [name for name, switch in left.items() if all(each in found for each in switch.switches)]
        if not done:
            raise TopologyError(f"switches form a circle: {', '.join(sorted(left)[:5])}")
        for name in done:
            found[name] = 1 + max((found[each] for each in left.pop(name).switches), default=0)
    return found


def hyper_nodes_of(switches: Mapping[str, Switch], source: str) -> dict[str, HyperNode]:
    """A HyperNode for each switch, of its name; ``source`` is where the switches come from.

    Raises:
        TopologyError: see `tiers_of`.

    """
    tiers = tiers_of(switches)
    return {
        name: HyperNode(
            metadata=ObjectMeta(name=name, labels={SOURCE: source}),
            spec=HyperNodeSpec(
                tier=tiers[name],
                members=[
                    *(member("Node", each) for each in sorted(set(switch.nodes))),
                    *(member("HyperNode", each) for each in sorted(set(switch.switches))),
                ],
            ),
        )
        for name, switch in switches.items()
    }


def _expanded(text: str, most: int) -> Iterator[str]:
    """``tux[0-2,7],other`` as names.

    Raises:
        ValueError: brackets do not match, a range is none, a name cannot be one of Kubernetes, or there are too many.

    """
    count = 0
    for part in _parts(text):
        for name in _one(part):
            count += 1
            if count > most:
                raise ValueError(f"a file may list {MOST_NAMES} names at most")
            if not NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a name that a node or HyperNode can have")
            yield name


def _parts(text: str) -> Iterator[str]:
    """Split at commas outside of brackets."""
    part, depth = "", 0
    for letter in text:
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if depth not in (0, 1):
            raise ValueError("brackets do not match")
        if letter == "," and not depth:
            yield part
            part = ""
        else:
            part += letter
    if depth:
        raise ValueError("brackets do not match")
    if part:
        yield part


def _one(part: str) -> Iterator[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        yield part
        return
    inner, _, tail = rest.partition("]")
    for piece in inner.split(","):
        first, dash, last = piece.partition("-")
        last = last if dash else first
        if not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()) or len(last) > 9:
            raise ValueError(f"{piece!r} is not a range of numbers")
        if int(last) < int(first) or int(last) - int(first) >= MOST_NAMES:
            raise ValueError(f"{piece!r} is not a range of numbers, or too long")
        for number in range(int(first), int(last) + 1):
            for end in _one(tail):
                yield f"{head}{number:0{len(first)}}{end}"
