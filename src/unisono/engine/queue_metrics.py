"""Amounts of one queue at the end of a cycle, as metrics show them."""

from __future__ import annotations

import msgspec

Amounts = list[int]
UNLIMITED = 2**62
"""Stands for "no limit"."""


class ShareMetrics(msgspec.Struct, frozen=True):
    """What the plug-in that divides the cluster says of one queue; engine units by resource row.

    Attributes:
        deserved: its share.
        limit: the most that it may hold.
        inqueue: what its admitted jobs are still promised.
        share: largest held part of what it deserves.
        overused: it holds all of its share.

    """

    deserved: Amounts
    limit: Amounts
    inqueue: Amounts
    share: float
    overused: bool


class QueueMetrics(msgspec.Struct, frozen=True):
    """One queue; engine units by resource row.

    Attributes:
        allocated: what it and its children hold.
        request: the same of its own jobs, with what their pending pods ask for.
        capability: ``spec.capability``, None where it has none; `UNLIMITED` in rows that it does not name.
        shares: None where no plug-in divides the cluster, or not for this queue.

    """

    name: str
    weight: int
    allocated: Amounts
    request: Amounts
    capability: Amounts | None
    shares: ShareMetrics | None
