"""The sources of network topology: LLDP neighbours, NVIDIA's fabric manager, and those of entry points."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any

import msgspec

from unisono.api.topology_sources import GROUP, Question, SourceFailed, Switch, TopologySource
from unisono.controllers.hypernode.discovery import MOST_NAMES, NAME, TopologyError, tiers_of

# Nodes by the names that a network knows them by (pure).


class Resolver:
    """The nodes of a cluster.

    A network may write a host in capitals, or without its domain where the node's name has one, or the other way round.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)
        short: dict[str, str | None] = {}
        for name in sorted(self.names):
            head = name.partition(".")[0]
            # Two nodes that share a first part are told apart by their full names alone.
            short[head] = None if head in short else name
        self._short = short

    def node(self, name: str) -> str | None:
        """The node that is meant, None for a system that is no node."""
        lower = name.lower()
        if lower in self.names:
            return lower
        return self._short.get(lower.partition(".")[0])


# Fields that sources with a server share (pure).


def base_url(config: Mapping[str, Any]) -> str:
    """The address of the server; without a scheme it is HTTPS.

    Raises:
        SourceFailed: there is none.
    """
    endpoint = config.get("endpoint")
    if not isinstance(endpoint, str) or not endpoint.strip():
        raise SourceFailed("config.endpoint: it must be the address of the server, such as https://ufm.example.com")
    url = endpoint.strip().rstrip("/")
    return url if url.startswith(("http://", "https://")) else f"https://{url}"


def verifies(config: Mapping[str, Any]) -> bool:
    """Whether the server's certificate is checked; only a plain true for ``insecureSkipVerify`` leaves that out."""
    return config.get("insecureSkipVerify") is not True


# Switches that serve the same nodes are one domain: what a gang sees of a network with several rails (pure).

NOT_CONNECTED = frozenset({"", "na", "n/a", "none", "unknown"})
"""What managers of networks write for a port without a neighbour."""


def connected(name: str | None) -> bool:
    """Whether this is the name of a neighbour."""
    return name is not None and name.strip().lower() not in NOT_CONNECTED


def merged(members: Mapping[str, Iterable[str]]) -> list[tuple[str, tuple[str, ...]]]:
    """Switches that share a member, directly or through others, as one.

    Args:
        members: of each switch.

    Returns:
        The first name of each set of switches, and all members of the set, both in the order of names.
    """
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    owner: dict[str, str] = {}
    for switch in sorted(members):
        for member in members[switch]:
            one, other = root(switch), root(owner.setdefault(member, switch))
            # The first name stands for all.
            parent[max(one, other)] = min(one, other)
    domains: dict[str, set[str]] = {}
    for member, switch in owner.items():
        domains.setdefault(root(switch), set()).add(member)
    return [(name, tuple(sorted(domains[name]))) for name in sorted(domains)]


# Ethernet (RoCE) as a collector of LLDP neighbours knows it: who is plugged into whom, made into tiers of switches.

ROCE_SOURCE = "roce"
_FIELDS = {"system": "hostname", "peer": "peer_hostname"}
_MOST_TIERS = 8
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_LONGEST = 200

Links = list[tuple[str, str]]


class Lldp:
    """Asks one address for the links of all systems."""

    async def discover(self, question: Question) -> Mapping[str, Switch]:
        """Switches next to nodes are the lowest tier, those next to them the one above, and so on.

        Raises:
            SourceFailed: the server does not answer, or with something else than a list of links.
        """
        url, fields = base_url(question.config), _fields(question.config)
        ignored = _ignored(question.config)
        verify = verifies(question.config)
        text = await question.fetch.get(url, credentials=question.credentials, verify=verify)
        try:
            links = await asyncio.to_thread(links_of, text, fields)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SourceFailed(f"{url} does not answer with a list of links: {error}") from error
        return switches_of([link for link in links if not any(ignored(name) for name in link)], question.nodes)


def links_of(text: bytes, fields: Mapping[str, str]) -> Links:
    """Pairs of neighbours of a list of records; those without a neighbour are passed over.

    Raises:
        msgspec.DecodeError: it is no list of records.
    """
    links = []
    for record in msgspec.json.decode(text, type=list[dict[str, Any]]):
        ends = [record.get(fields[end]) for end in ("system", "peer")]
        if all(isinstance(end, str) and connected(end) for end in ends):
            links.append((str(ends[0]).strip(), str(ends[1]).strip()))
    return links


def switches_of(links: Links, nodes: Iterable[str]) -> dict[str, Switch]:
    """Tiers of switches over the nodes.

    Args:
        links: pairs of neighbours, each told from one end or from both.
        nodes: of the cluster; whatever else is linked to them is a switch.
    """
    resolver = Resolver(nodes)
    beside: dict[str, set[str]] = {}
    for pair in links:
        one, other = (resolver.node(name) or name for name in pair)
        beside.setdefault(one, set()).add(other)
        beside.setdefault(other, set()).add(one)
    placed = {name for name in beside if name in resolver.names}
    # By system: the domain of the tier below that it belongs to.
    domain = {name: name for name in placed}
    switches: dict[str, Switch] = {}
    for tier in range(1, _MOST_TIERS + 1):
        above = {other for name in domain for other in beside[name] if other not in placed}
        if not above:
            break
        members = {each: {domain[name] for name in beside[each] if name in domain} for each in above}
        owner: dict[str, str] = {}
        for first, below in merged(members):
            name = _name(first, switches)
            switches[name] = Switch(nodes=below) if tier == 1 else Switch(switches=below)
            owner |= dict.fromkeys(below, name)
        domain = {each: owner[next(iter(sorted(below)))] for each, below in members.items()}
        placed |= above
    return switches


def _name(switch: str, taken: Mapping[str, Switch]) -> str:
    base = f"{ROCE_SOURCE}-{_NOT_IN_NAMES.sub('-', switch.lower()).strip('-')[:_LONGEST] or 'switch'}".strip("-")
    name, number = base, 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    return name


def _fields(config: Mapping[str, Any]) -> dict[str, str]:
    given = config.get("fields") or {}
    if not isinstance(given, dict) or not given.keys() <= _FIELDS.keys():
        raise SourceFailed(f"config.fields: only {' and '.join(_FIELDS)} can be named")
    if not all(isinstance(value, str) and value for value in given.values()):
        raise SourceFailed("config.fields: the names of fields must be texts")
    return {**_FIELDS, **given}


def _ignored(config: Mapping[str, Any]) -> Any:
    given = config.get("ignore") or []
    if not isinstance(given, list) or not all(isinstance(each, str) and each for each in given):
        raise SourceFailed('config.ignore: it must be a list of names of switches, such as "oob-*"')
    exact = {each for each in given if not each.endswith("*")}
    heads = tuple(each[:-1] for each in given if each.endswith("*"))
    return lambda name: name in exact or (bool(heads) and name.startswith(heads))


# InfiniBand as NVIDIA's Unified Fabric Manager knows it: its ports that lead from computers to leaf switches.

UFM_SOURCE = "ufm"
_PORTS = "/ufmRest/resources/ports"
_OF_COMPUTERS = "Computer"
_LEAF, _SPINE = "leaf-hn", "spine-hn"


class _Port(msgspec.Struct):
    """What is read of a port; other fields are passed over."""

    description: str | None = None
    system_name: str | None = None
    peer_node_name: str | None = None


class Ufm:
    """Asks UFM for all ports."""

    async def discover(self, question: Question) -> Mapping[str, Switch]:
        """Leaf switches with their computers, below one spine; the names are Volcano's.

        Raises:
            SourceFailed: UFM does not answer, or with something else than ports.
        """
        url = base_url(question.config) + _PORTS
        if not {"username", "password"} <= question.credentials.keys():
            raise SourceFailed("credentials.secretRef: UFM wants a Secret with the keys username and password")
        verify = verifies(question.config)
        text = await question.fetch.get(url, credentials=question.credentials, verify=verify)
        try:
            return await asyncio.to_thread(switches_of_ports, text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SourceFailed(f"{url} does not answer with a list of ports: {error}") from error


def switches_of_ports(text: bytes) -> dict[str, Switch]:
    """The switches that a list of ports describes.

    Raises:
        msgspec.DecodeError: it is no list of ports.
    """
    leaves: dict[str, set[str]] = {}
    for port in msgspec.json.decode(text, type=list[_Port]):
        if _OF_COMPUTERS in (port.description or "") and connected(port.peer_node_name) and connected(port.system_name):
            assert port.peer_node_name
            assert port.system_name
            leaves.setdefault(port.peer_node_name, set()).add(port.system_name)
    switches = {f"{_LEAF}-{number}": Switch(nodes=nodes) for number, (_, nodes) in enumerate(merged(leaves))}
    return {**switches, _SPINE: Switch(switches=tuple(switches))} if switches else {}


# The sources of network topology: those that come with Unisono, and those that other packages bring.

BUILT_IN: Mapping[str, Callable[[], TopologySource]] = {UFM_SOURCE: Ufm, ROCE_SOURCE: Lldp}


def find_source(name: str) -> TopologySource:
    """The source of that name.

    Raises:
        SourceFailed: there is none, or it cannot be loaded.
    """
    made = BUILT_IN.get(name)
    if made is not None:
        return made()
    installed = sorted(each.name for each in entry_points(group=GROUP))
    for each in entry_points(group=GROUP, name=name):
        try:
            source: TopologySource = each.load()()
        except Exception as error:
            raise SourceFailed(f'source "{name}" cannot be loaded: {type(error).__name__}: {error}') from error
        return source
    choices = ", ".join(["label", "file", *BUILT_IN, *installed])
    raise SourceFailed(f'source "{name}" is not supported; use one of {choices}')


def of_cluster(switches: Mapping[str, Switch], nodes: frozenset[str]) -> dict[str, Switch]:
    """What a source has told, as far as it is about the cluster: its nodes by their names, and no switch without any.

    Raises:
        SourceFailed: it tells too much, uses names that HyperNodes cannot have, names a switch that it does not tell
            of, or has switches below each other in a circle.
    """
    if sum(1 + len(each.nodes) + len(each.switches) for each in switches.values()) > MOST_NAMES:
        raise SourceFailed(f"the network has more than {MOST_NAMES} names of nodes and switches")
    for name, switch in switches.items():
        if not NAME.fullmatch(name):
            raise SourceFailed(f"{name!r} is not a name that a HyperNode can have")
        missing = next((each for each in switch.switches if each not in switches), None)
        if missing is not None:
            raise SourceFailed(f"switch {name} names switch {missing}, of which nothing is told")
    try:
        tiers = tiers_of(switches)
    except TopologyError as error:
        raise SourceFailed(str(error)) from error
    resolver, kept = Resolver(nodes), dict[str, Switch]()
    for name in sorted(tiers, key=lambda each: (tiers[each], each)):
        switch = switches[name]
        ours = tuple(sorted({node for each in switch.nodes if (node := resolver.node(each)) is not None}))
        below = tuple(each for each in switch.switches if each in kept)
        if ours or below:
            kept[name] = Switch(ours, below)
    return kept
