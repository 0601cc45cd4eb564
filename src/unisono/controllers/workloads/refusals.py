"""Pods that their node refused: the longer a node keeps refusing, the longer their successors wait (pure)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from unisono.api.core import Pod
from unisono.controllers.pod_facts import created, has_failed, has_started

# The second try after a refusal waits so long, each further one twice as long as the one before.
FIRST_SECONDS = 1.0
LONGEST_SECONDS = 300.0
# A refused pod whose successor has the same name keeps that name for so long.
NAMED_SECONDS = 10.0


def was_refused(pod: Pod) -> bool:
    """Whether the pod failed before any of its containers began: its node had no room for it, or not its labels."""
    return has_failed(pod) and not has_started(pod)


def refused_for(pod: Pod, now: float) -> float:
    """Seconds until a refused pod makes room for its successor of the same name; 0 for any other pod."""
    return max(0.0, created(pod) + NAMED_SECONDS - now) if was_refused(pod) else 0.0


def refusal_wait(pods: Sequence[Pod], missing: int, now: float) -> float:
    """Seconds until pods are made in the place of refused ones; 0 where that is now.

    The first is made at once: most refusals come from a scheduler that did not know yet how full the node was. The pods
    themselves are the memory, so that a restart of the controller starts no new rush.

    Args:
        pods: the pods of a workload whose names are drawn, failed ones too.
        missing: how many are to be made.
        now: seconds since 1970.

    """
    accepted = max((created(pod) for pod in pods if has_started(pod)), default=0.0)
    refused = [created(pod) for pod in pods if was_refused(pod) and created(pod) >= accepted]
    rounds = math.ceil(len(refused) / missing) if missing > 0 else 0
    if rounds < 2:
        return 0.0
    delay = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(rounds - 2, 16))
    return max(0.0, max(refused) + delay - now)
