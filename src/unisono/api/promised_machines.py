"""What a hub writes on what it has sent to members for machines that are to come there (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from unisono.api.annotations import DISPATCH, MACHINES
from unisono.api.base import Object
from unisono.api.groups.fleet import NodeGroupSummary

MOST_SHOWN = 4
_MINUTE = 60.0


class PromisedMachines(msgspec.Struct, frozen=True):
    """Machines of one member.

    Attributes:
        dispatch: number of the dispatch that they are for; 0 for replicas.
        machines: how many, by group of nodes.
        seconds: from the dispatch until they are expected.
        patience: from the dispatch until the job goes elsewhere without them.
        price: of all of them, an hour.

    """

    dispatch: int
    machines: dict[str, int]
    seconds: float
    patience: float
    price: float

    def text(self, cluster: str) -> str:
        """``3 machines of pool P in member M, about 4 minutes, 2.1 an hour``."""
        return f"{machines_text(self.machines)} in member {cluster}, {about(self.seconds)}, {self.price:.4g} an hour"


def machines_text(machines: Mapping[str, int]) -> str:
    """``3 machines of pool P``."""
    shown = sorted(machines.items())[:MOST_SHOWN]
    return " and ".join(f"{count} machine{'' if count == 1 else 's'} of pool {name}" for name, count in shown)


def may_come_text(groups: Iterable[NodeGroupSummary]) -> str:
    """``3 of pool P``, with those that are promised already."""
    counts = []
    for each in groups:
        promised = f" (and {each.promised} promised)" if each.promised else ""
        if each.may_come or promised:
            counts.append(f"{each.may_come or 0} of {each.name}{promised}")
    more = f" and {len(counts) - MOST_SHOWN} more" if len(counts) > MOST_SHOWN else ""
    return ", ".join(counts[:MOST_SHOWN]) + more


def about(seconds: float) -> str:
    """How long that is, in words."""
    if seconds < 1.5 * _MINUTE:
        return f"about {max(seconds, 1.0):.0f} seconds"
    return f"about {seconds / _MINUTE:.0f} minutes"


def promised_machines(job: Object) -> PromisedMachines | None:
    """What was written for the present dispatch of a job; None where it waits for no machines."""
    marks = job.metadata.annotations or {}
    try:
        promise = msgspec.json.decode(marks.get(MACHINES, ""), type=PromisedMachines)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return promise if str(promise.dispatch) == marks.get(DISPATCH) else None


def machines_of_replicas(workload: Object) -> dict[str, PromisedMachines]:
    """For which machines a hub has sent replicas to members, by member; empty where they wait for none."""
    text = (workload.metadata.annotations or {}).get(MACHINES)
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, PromisedMachines])
    except (msgspec.MsgspecError, RecursionError):
        return {}
