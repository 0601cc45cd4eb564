"""One pod is larger than every node, even if the cluster were empty."""

from __future__ import annotations

import numpy as np

from unisono.engine.changes import RequestAtMost
from unisono.engine.verdict import Cause
from unisono.engine.verdicts.draft import Draft
from unisono.engine.verdicts.limits import LIMITS
from unisono.engine.verdicts.pod_too_large import too_large
from unisono.engine.verdicts.waiting import Waiting


def beyond_every_node(waiting: Waiting) -> Draft | None:
    """Said before any limit: no room in a queue would help."""
    limit = waiting.report.gate or waiting.report.quota
    nodes = waiting.cycle.session.nodes
    if limit is None or limit.cause not in (*LIMITS, Cause.NOT_TRIED) or not nodes.size:
        return None
    if waiting.tools.shortages.lost_devices(waiting.kinds, limit.need):
        return None
    found = too_large(waiting.cycle, waiting.kinds, np.ones(nodes.size, np.bool_))
    if found is None:
        return None
    text, at_most = found
    fitting = waiting.tools.shortages.fitting_roles(waiting.kinds)
    verdict = waiting.verdict(
        Cause.TOO_LARGE,
        "; ".join(filter(None, (text, fitting))),
        need=dict(limit.need),
        have={name: int(nodes.allocatable[waiting.cycle.session.registry.requested(name)].max()) for name in at_most},
        tasks_placeable=waiting.placeable,
    )
    return Draft(verdict, [[RequestAtMost(at_most)]] if at_most else [])
