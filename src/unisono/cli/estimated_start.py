"""When the PodGroups that are being explained may start: simulated futures of the cluster as it is."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from unisono.api.times import parse_duration

if TYPE_CHECKING:
    from unisono.cli.options import Where
    from unisono.simulator.forecast.forecast import Start

LOOK_AHEAD = "24h"
"""How far ``explain --estimate`` looks ahead, and ``whatif`` where nothing else is said."""
FUTURES = 20
"""How many possible futures both simulate."""
_SHOWN = 10


def estimated_starts(where: Where, groups: Collection[str]) -> list[Start]:
    """Estimates of those of these PodGroups (``namespace/name``) that wait, in their order.

    Raises:
        ApiError: the user may not list what the scheduler goes by, or the server cannot answer.

    """
    from unisono.cli.cluster_state import config_of, objects_of
    from unisono.cli.simulating.text import progress_bar
    from unisono.simulator.forecast.forecast import forecast

    used, objects, until = config_of(where, (), None), objects_of(where, ()), parse_duration(LOOK_AHEAD)
    with progress_bar("futures") as tell:
        found = forecast(objects, used, time.time(), futures=FUTURES, until=until, whole=False, progress=tell)
    starts = {each.key: each for each in found.starts}
    return [starts[key] for key in groups if key in starts]


def lines(starts: Collection[Start]) -> list[str]:
    """A line for each, with its PodGroup where there are several."""
    from unisono.cli.simulating.text import between, seconds

    if not starts:
        return ["  estimated start: none, as none of its PodGroups waits for a place"]
    told = []
    late = f"not within {seconds(parse_duration(LOOK_AHEAD))}"
    for each in list(starts)[:_SHOWN]:
        of = f" of {each.key}" if len(starts) > 1 else ""
        middle = late if each.median is None else f"in {seconds(each.median)}"
        guess = "" if each.known else "; nothing says how long it runs"
        told.append(f"  estimated start{of}: {middle} (80 %: {between(each)}, as things stand{guess})")
    if len(starts) > _SHOWN:
        told.append(f"  and {len(starts) - _SHOWN} more (-o json lists all)")
    return told
