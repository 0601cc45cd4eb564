"""Ethernet (RoCE) as a collector of LLDP neighbours knows it: who is plugged into whom, made into tiers of switches."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from unisono.api.topology_sources import Question, SourceFailed, Switch
from unisono.controllers.hypernode.endpoint import base_url, verifies
from unisono.controllers.hypernode.fabric import connected, merged
from unisono.controllers.hypernode.names import Resolver

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
    found = []
    for record in msgspec.json.decode(text, type=list[dict[str, Any]]):
        ends = [record.get(fields[end]) for end in ("system", "peer")]
        if all(isinstance(end, str) and connected(end) for end in ends):
            found.append((str(ends[0]).strip(), str(ends[1]).strip()))
    return found


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
    found: dict[str, Switch] = {}
    for tier in range(1, _MOST_TIERS + 1):
        above = {other for name in domain for other in beside[name] if other not in placed}
        if not above:
            break
        members = {each: {domain[name] for name in beside[each] if name in domain} for each in above}
        owner: dict[str, str] = {}
        for first, below in merged(members):
            name = _name(first, found)
            found[name] = Switch(nodes=below) if tier == 1 else Switch(switches=below)
            owner |= dict.fromkeys(below, name)
        domain = {each: owner[next(iter(sorted(below)))] for each, below in members.items()}
        placed |= above
    return found


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
