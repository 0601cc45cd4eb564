"""Pods of further roles that no node could take either: each role may have its own cause."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from unisono.cluster.records import Task
from unisono.engine.verdicts.pod_too_large import too_large
from unisono.engine.verdicts.waiting import Waiting

_MOST_ROLES = 2
"""Further roles that are named."""


def other_roles(waiting: Waiting, task: Task) -> str:
    """Sentences about pods of other roles than ``task`` that fit on no node even if all were empty; ``""``: none."""
    return "".join(islice(_told(waiting, task), _MOST_ROLES))


def _told(waiting: Waiting, task: Task) -> Iterator[str]:
    everywhere = np.ones(waiting.cycle.session.nodes.size, np.bool_)
    for one in waiting.samples:
        if not one.role or one.role == task.role or waiting.tools.capacity.empty(one.pod_class).per_node:
            continue
        large = too_large(waiting.cycle, [kind for kind in waiting.kinds if kind.role == one.role], everywhere)
        fit = waiting.cycle.fits.errors(one.pod_class)
        said = large[0] if large is not None else waiting.tools.filters.text(one.pod_class, fit, one.namespace)
        reason = said.strip().removesuffix(".") or fit.text.removesuffix(".")
        yield f" Nor does any take pods of role {one.role}: {reason[0].lower()}{reason[1:]}."
