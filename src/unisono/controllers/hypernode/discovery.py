"""HyperNodes from labels of nodes or a topology file, and the configuration that asks for them (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from unisono.api.base import ObjectMeta
from unisono.api.core import Node
from unisono.api.groups.topology import ExactMatch, HyperNode, HyperNodeSpec, MemberSelector, MemberSpec
from unisono.api.keys import HOSTNAME
from unisono.api.times import duration_or_none
from unisono.api.topology_sources import Switch
from unisono.api.yaml import load_all
from unisono.controllers.workloads.templates import short_hash
from unisono.errors import ConfigError

# HyperNodes made from labels of nodes: a pure function from nodes to the wanted HyperNodes.

SOURCE = "volcano.sh/network-topology-source"


@dataclass(slots=True)
class Domain:
    """A domain of the network: all nodes, or lower domains, with one value of one label.

    Attributes:
        type: topology type that it belongs to.
        tier: 1 for the narrowest.
        label: the label.
        value: its value.
        nodes: names of the nodes, of the narrowest tier only.
        children: values of the next narrower label.
    """

    type: str
    tier: int
    label: str
    value: str
    nodes: set[str] = field(default_factory=set)
    children: set[str] = field(default_factory=set)


Key = tuple[str, int, str]


def find_domains(types: Mapping[str, tuple[str, ...]], nodes: Iterable[Node]) -> dict[Key, Domain]:
    """The domains that the nodes' labels describe, by type, tier and value.

    A node is in the domains of its labels from the narrowest on, up to the first label that it does not have.
    """
    domains: dict[Key, Domain] = {}
    for node in nodes:
        labels = node.metadata.labels or {}
        for type_name, levels in types.items():
            below = ""
            for tier, label in enumerate(levels, start=1):
                value = labels.get(label)
                if not value:
                    break
                domain = domains.setdefault((type_name, tier, value), Domain(type_name, tier, label, value))
                if tier == 1:
                    domain.nodes.add(node.metadata.name)
                else:
                    domain.children.add(below)
                below = value
    return domains


def wanted_hyper_nodes(
    domains: Mapping[Key, Domain], present: Iterable[HyperNode], source: str
) -> dict[str, HyperNode]:
    """The HyperNodes of the domains by name; a domain keeps the name that its HyperNode has.

    Args:
        domains: as ``find_domains`` answers them.
        present: HyperNodes that were made from this source before.
        source: name of the source.
    """
    names_by_identity = {
        _identity(each): each.metadata.name for each in sorted(present, key=lambda each: each.metadata.name)
    }
    names = {
        key: names_by_identity.get((domain.type, domain.tier, domain.label, domain.value)) or _name(domain)
        for key, domain in domains.items()
    }
    return {
        names[key]: HyperNode(
            metadata=ObjectMeta(name=names[key], labels={SOURCE: source, domain.label: domain.value}),
            spec=HyperNodeSpec(tier=domain.tier, tier_name=domain.label, members=_members(domain, names)),
        )
        for key, domain in domains.items()
    }


def _members(domain: Domain, names: Mapping[Key, str]) -> list[MemberSpec]:
    if domain.tier == 1:
        return [member("Node", name) for name in sorted(domain.nodes)]
    below = sorted(names[domain.type, domain.tier - 1, value] for value in domain.children)
    return [member("HyperNode", name) for name in below]


def member(kind: str, name: str) -> MemberSpec:
    """A member by its name; ``kind`` is Node or HyperNode."""
    return MemberSpec(type=kind, selector=MemberSelector(exact_match=ExactMatch(name=name)))


def _name(domain: Domain) -> str:
    # The same after every restart, so that an interrupted look makes no domain twice.
    mark = short_hash([domain.label, domain.value])[:5]
    return f"hypernode-{domain.type.lower()}-tier{domain.tier}-{mark}"


def _identity(hyper_node: HyperNode) -> tuple[str, int, str, str]:
    label, tier = hyper_node.spec.tier_name or "", hyper_node.spec.tier or 0
    head = hyper_node.metadata.name.rpartition(f"-tier{tier}-")[0].removeprefix("hypernode-")
    return head, tier, label, (hyper_node.metadata.labels or {}).get(label, "")


# A network described in a file as Slurm's ``topology.conf``: switches with their nodes or switches below (pure).

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
    switches: dict[str, Switch] = {}
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
            if name in switches:
                raise TopologyError(f"line {number}: switch {name} is listed twice")
            switches[name] = Switch(nodes, below)
    for name, switch in switches.items():
        missing = next((each for each in switch.switches if each not in switches), None)
        if missing is not None:
            raise TopologyError(f"switch {name} names switch {missing}, which is not listed")
    return switches


def tiers_of(switches: Mapping[str, Switch]) -> dict[str, int]:
    """1 for switches that have nodes alone, and one more than the highest below for others.

    Raises:
        TopologyError: switches are below each other in a circle.
    """
    tiers: dict[str, int] = {}
    left = dict(switches)
    while left:
        done = [name for name, switch in left.items() if all(each in tiers for each in switch.switches)]
        if not done:
            raise TopologyError(f"switches form a circle: {', '.join(sorted(left)[:5])}")
        for name in done:
            tiers[name] = 1 + max((tiers[each] for each in left.pop(name).switches), default=0)
    return tiers


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


# The configuration of network topology discovery, in Volcano's format (pure).

KEY = "volcano-controller.conf"
LABEL_SOURCE = "label"
# The type becomes a part of object names.
_LONGEST_TYPE = 20
# The source becomes the value of a label.
_LONGEST_SOURCE = 63
_INTERVAL, _SHORTEST = 3600.0, 10.0


@dataclass(frozen=True, slots=True)
class AskedSource:
    """A source outside of the cluster.

    Attributes:
        interval: seconds from one look to the next.
        secret: namespace and name of the Secret with credentials; None for none.
        config: for the source, as it was written.
        at: where the configuration stands.
    """

    interval: float
    secret: tuple[str, str] | None
    config: dict[str, Any]
    at: str


@dataclass(frozen=True, slots=True)
class DiscoveryConfig:
    """What is to be discovered.

    Attributes:
        types: topology types, each with node labels from the narrowest domain to the widest; None when discovery by
            labels is off.
        switches: of a topology file, by name; None when discovery by file is off.
        asked: sources outside of the cluster, by name.
        problems: what is wrong with the configuration and was left out.
    """

    types: dict[str, tuple[str, ...]] | None = None
    problems: list[str] = field(default_factory=list)
    switches: dict[str, Switch] | None = None
    asked: dict[str, AskedSource] = field(default_factory=dict)


def parse_config(text: str) -> DiscoveryConfig:
    """Read ``volcano-controller.conf``; what is wrong is left out and told."""
    try:
        documents = load_all(text, KEY)
    except ConfigError as error:
        return DiscoveryConfig(problems=[str(error)])
    document = documents[0].value if documents else None
    entries = document.get("networkTopologyDiscovery") if isinstance(document, dict) else None
    problems: list[str] = []
    types: dict[str, tuple[str, ...]] | None = None
    switches: dict[str, Switch] | None = None
    asked: dict[str, AskedSource] = {}
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        at = f"networkTopologyDiscovery[{number}]"
        if not isinstance(entry, dict) or not entry.get("enabled"):
            continue
        config = entry.get("config")
        if entry.get("source") == FILE_SOURCE:
            switches = _switches(config, f"{at}.config.topology", problems, switches)
            continue
        if entry.get("source") != LABEL_SOURCE:
            _asked(entry, at, asked, problems)
            continue
        given = config.get("networkTopologyTypes") if isinstance(config, dict) else None
        if not isinstance(given, dict):
            problems.append(f"{at}.config.networkTopologyTypes: must map names to lists of nodeLabel")
            continue
        types = {**(types or {}), **_types(given, f"{at}.config.networkTopologyTypes", problems)}
    return DiscoveryConfig(types, problems, switches, asked)


def _asked(entry: dict[str, Any], at: str, asked: dict[str, AskedSource], problems: list[str]) -> None:
    """A source that is asked from time to time."""
    name, config = entry.get("source"), entry.get("config")
    if not isinstance(name, str) or not NAME.fullmatch(name) or len(name) > _LONGEST_SOURCE:
        problems.append(f"{at}.source: it must be the name of a source")
        return
    if name in asked:
        problems.append(f'{at}.source: "{name}" is configured twice; the first one counts')
        return
    if config is not None and not isinstance(config, dict):
        problems.append(f"{at}.config: must map names to values")
        return
    text = entry.get("interval")
    interval = _INTERVAL if text is None else duration_or_none(str(text))
    if interval is None or interval <= 0:
        problems.append(f'{at}.interval: "{text}" is not a duration such as 10m; {_INTERVAL / 3600:g}h is used')
        interval = _INTERVAL
    secret = _secret(entry.get("credentials"), f"{at}.credentials.secretRef", problems)
    asked[name] = AskedSource(max(interval, _SHORTEST), secret, config or {}, at)


def _secret(credentials: Any, at: str, problems: list[str]) -> tuple[str, str] | None:
    """Namespace and name of a Secret; an empty namespace is that of the configuration."""
    if credentials is None:
        return None
    reference = credentials.get("secretRef") if isinstance(credentials, dict) else None
    name = reference.get("name") if isinstance(reference, dict) else None
    namespace = reference.get("namespace") if isinstance(reference, dict) else None
    if not isinstance(name, str) or not name or not isinstance(namespace or "", str):
        problems.append(f"{at}: it must have the name, and may have the namespace, of a Secret")
        return None
    return str(namespace or ""), name


def _switches(
    config: Any, path: str, problems: list[str], before: dict[str, Switch] | None
) -> dict[str, Switch] | None:
    """The switches of a file; those of the entry before where this one cannot be read."""
    text = config.get("topology") if isinstance(config, dict) else None
    if not isinstance(text, str):
        problems.append(f"{path}: must be the text of a topology.conf")
        return before
    try:
        switches = read_switches(text)
        tiers_of(switches)
    except TopologyError as error:
        problems.append(f"{path}: {error}")
        return before
    return {**(before or {}), **switches}


def _types(given: dict[Any, Any], path: str, problems: list[str]) -> dict[str, tuple[str, ...]]:
    types: dict[str, tuple[str, ...]] = {}
    for name, levels in given.items():
        at = f"{path}.{name}"
        labels = [level.get("nodeLabel") for level in levels if isinstance(level, dict)] if levels else []
        if not isinstance(name, str) or len(name) > _LONGEST_TYPE:
            problems.append(f"{at}: the name must be a text of at most {_LONGEST_TYPE} characters")
        elif not labels or not all(isinstance(label, str) and label for label in labels):
            problems.append(f"{at}: every level needs a nodeLabel")
        else:
            # Widest first in the file, and the node itself last; only domains of several nodes become HyperNodes.
            domains = labels[:-1] if labels[-1] == HOSTNAME else labels
            types[name] = tuple(str(label) for label in reversed(domains))
    return types
