"""Resources that no node has: which, what was probably meant, and what would help."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from unisono.api.keys import NVIDIA_GPU, NVIDIA_MIG
from unisono.api.licenses import is_floating
from unisono.api.names import did_you_mean, nearest
from unisono.api.resources import effective_requests
from unisono.engine.changes import amounts_text, listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.verdicts.demand import Kind

_MOST_ALTERNATIVES = 3
_STEM = re.compile(r"[^/]*/?[^-.]*")
"""What comes before the first variant of a resource: ``nvidia.com/gpu`` of ``nvidia.com/gpu.shared``."""
_HUGE_PAGES = "hugepages-"


def unoffered(cycle: Cycle, names: Iterable[str]) -> tuple[str, ...]:
    """Those of some resources that no node has at all, not even as unhealthy devices; none where there are no nodes."""
    nodes, registry = cycle.session.nodes, cycle.session.registry
    if not nodes.size:
        return ()
    rows = [(name, registry.find(name)) for name in names]
    absent = (name for name, row in rows if row is None or not nodes.allocatable[row].any())
    return tuple(name for name in absent if not any(name in facts.unhealthy for facts in nodes.table.facts))


def unoffered_text(cycle: Cycle, names: Iterable[str]) -> str:
    """``no node offers nvidia.com/gpus (did you mean nvidia.com/gpu?)``."""
    offered = _offered(cycle)
    told = []
    for name in names:
        others = [] if meant(cycle, name) else alternatives(cycle, name) or _other_pages(name, offered)
        hint = f" (nodes have {listed(tuple(others))})" if others else did_you_mean(name, offered)
        told.append(f"{name}{hint}")
    return f"no node offers {' or '.join(told)}"


def asked_text(cycle: Cycle, need: Mapping[str, int], names: Iterable[str], kinds: Sequence[Kind]) -> str:
    """`unoffered_text`, how much of it is asked for, and by which roles and containers where not by all."""
    names = tuple(names)
    amounts = amounts_text({name: need[name] for name in names})
    return f"{unoffered_text(cycle, names)}; {amounts} is asked for{asking(kinds, names)}"


def asking(kinds: Sequence[Kind], names: Iterable[str]) -> str:
    """`` by role worker``, `` by init containers``: where not all roles, or no other containers, ask for it."""
    asked = frozenset(names)
    those = [kind for kind in kinds if asked & kind.requests.keys()]
    some = len(those) < len(kinds)
    roles = " and ".join(dict.fromkeys(kind.role for kind in those if kind.role)) if some else ""
    whose = f"{'role' if ' and ' not in roles else 'roles'} {roles}" if roles else ""
    inits = bool(those) and all(_by_init_containers(kind, asked) for kind in those)
    told = " of ".join(filter(None, ("init containers" if inits else "", whose)))
    return f" by {told}" if told else ""


def _by_init_containers(kind: Kind, names: Collection[str]) -> bool:
    """Whether only its init containers ask for these."""
    one = kind.pod_class
    if one is None:
        return False
    mains, inits = (
        any(effective_requests(each).get(name) for each in part for name in names)
        for part in (one.containers, one.init_containers)
    )
    return inits and not mains


def _other_pages(name: str, offered: Iterable[str]) -> list[str]:
    """Huge pages of other sizes: amounts are multiples of a page, so one does not stand for the other."""
    return [one for one in offered if one.startswith(_HUGE_PAGES)] if name.startswith(_HUGE_PAGES) else []


def meant(cycle: Cycle, name: str) -> str:
    """The resource that some node has and that ``name`` is a near miss of; ``""`` where there is none."""
    return nearest(name, _offered(cycle))


def alternatives(cycle: Cycle, name: str) -> list[str]:
    """Resources of nodes in place of ``name``: the near miss, else those of the same family (slices of GPUs)."""
    near = meant(cycle, name)
    family = [one for one in _offered(cycle) if "/" in name and _family(one) == _family(name)]
    return [near] if near else family[:_MOST_ALTERNATIVES]


def _family(name: str) -> str:
    """What resources have in common of which one can stand for the other: ``nvidia.com/gpu`` for slices of it too."""
    return NVIDIA_GPU if name.startswith(NVIDIA_MIG) else "".join(_STEM.findall(name)[:1])


def remedy(cycle: Cycle, names: Iterable[str]) -> str:
    """What to do, in words, about those that are no near miss: nodes that have them."""
    without = [name for name in names if not alternatives(cycle, name)]
    return f"add a node that has {' and '.join(without)}" if without else ""


def _offered(cycle: Cycle) -> list[str]:
    """Resources that some node has."""
    registry, nodes = cycle.session.registry, cycle.session.nodes
    return [
        name
        for name in registry.names
        if (row := registry.find(name)) is not None and nodes.allocatable[row].any() and not is_floating(name)
    ]
