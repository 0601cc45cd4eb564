"""Which page a request for a view means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from unisono.dashboard.http.actions import JobRef, kind_of
from unisono.dashboard.live.pages import (
    FleetPage,
    JobPage,
    JobsPage,
    NodesPage,
    OverviewPage,
    Page,
    QueuesPage,
    SchedulerPage,
)
from unisono.dashboard.views.nodes import NodeQuery
from unisono.dashboard.views.table import Query
from unisono.errors import UnisonoError

if TYPE_CHECKING:
    from unisono.dashboard.live.world import World


class UnknownView(UnisonoError):
    """There is no view of that name."""


def page_of(world: World, view: str, query: Mapping[str, str]) -> Page:
    """The page that a view's name and its parameters mean.

    Raises:
        UnknownView: there is none of that name.
        ValidationError: the parameters are not the view's.
        NotFound: the kind of job is not known.

    """
    match view:
        case "overview":
            return OverviewPage(world)
        case "jobs":
            return JobsPage(world, msgspec.convert(dict(query), Query, strict=False))
        case "queues":
            return QueuesPage(world)
        case "fleet":
            return FleetPage(world)
        case "scheduler":
            return SchedulerPage(world)
        case "nodes":
            return NodesPage(world, msgspec.convert(dict(query), NodeQuery, strict=False))
        case "job":
            ref = msgspec.convert(dict(query), JobRef)
            return JobPage(world, kind_of(ref.api_version, ref.kind), ref.namespace, ref.name)
    raise UnknownView(f"There is no view {view!r}.")
