"""The sources of network topology: those that come with Unisono, and those that other packages bring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points

from unisono.api.topology_sources import GROUP, SourceFailed, Switch, TopologySource
from unisono.controllers.hypernode.lldp import ROCE_SOURCE, Lldp
from unisono.controllers.hypernode.names import Resolver
from unisono.controllers.hypernode.topology_file import MOST_NAMES, NAME, TopologyError, tiers_of
from unisono.controllers.hypernode.ufm import UFM_SOURCE, Ufm

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
    known = ", ".join(["label", "file", *BUILT_IN, *installed])
    raise SourceFailed(f'source "{name}" is not supported; use one of {known}')


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
    resolver, found = Resolver(nodes), dict[str, Switch]()
    for name in sorted(tiers, key=lambda each: (tiers[each], each)):
        switch = switches[name]
        ours = tuple(sorted({node for each in switch.nodes if (node := resolver.node(each)) is not None}))
        below = tuple(each for each in switch.switches if each in found)
        if ours or below:
            found[name] = Switch(ours, below)
    return found
