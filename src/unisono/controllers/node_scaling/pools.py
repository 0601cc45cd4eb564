"""What MachineDeployments say of their machines, and what to do about machines that do not come (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite

from unisono.api.annotations import BACKOFF_UNTIL, PRICE, PROVISION_FAILURES, PROVISION_RETRIES, SCALED_AT
from unisono.api.core import Taint
from unisono.api.groups.autoscaling import (
    CAPACITY,
    GPU_COUNT,
    GPU_TYPE,
    LABELS,
    MAXIMUM,
    MINIMUM,
    PROVISION_TIME,
    TAINTS,
    UNNEEDED_TIME,
    MachineDeployment,
)
from unisono.api.keys import NVIDIA_GPU, SPOT_LABELS
from unisono.api.quantity import QuantityError
from unisono.api.resources import resource_list
from unisono.api.times import duration_or_none, rfc3339, time_or
from unisono.controllers.node_scaling.decide import Pool

UNNEEDED_SECONDS, PROVISION_SECONDS = 600.0, 900.0
"""As long as the cluster autoscaler waits by default."""
BACKOFF_SECONDS, LONGEST_BACKOFF = 300.0, 1800.0
"""A pool that failed is left alone for this time, twice as long after each further failure."""
MOST_FAILURES = 100


def pool_of(deployment: MachineDeployment, now: float = 0.0) -> Pool | None:
    """The machines of a deployment; None when it does not say how far it may grow and what a machine offers."""
    notes = deployment.metadata.annotations or {}
    try:
        most = int(notes[MAXIMUM])
        offers = resource_list(dict(_offered(notes)))
    except (KeyError, ValueError, QuantityError):
        return None
    if not offers or deployment.metadata.deletion_timestamp:
        return None
    replicas = deployment.spec.replicas or 0
    labels = dict(part.split("=", 1) for part in notes.get(LABELS, "").split(",") if "=" in part)
    return Pool(
        deployment.key,
        replicas,
        max(replicas - (deployment.status.ready_replicas or 0), 0),
        most,
        offers,
        labels,
        tuple(_taints(notes.get(TAINTS, ""))),
        least=_least(notes),
        price=_price(notes.get(PRICE)),
        spot=any(labels.get(key) == value for key, value in SPOT_LABELS.items()),
        failing=_time(notes.get(BACKOFF_UNTIL)) > now,
        unneeded_seconds=_positive(notes.get(UNNEEDED_TIME), UNNEEDED_SECONDS),
    )


@dataclass(frozen=True, slots=True)
class Overdue:
    """Machines that did not come in time.

    Attributes:
        annotations: to be set on the MachineDeployment; None removes one.
        replicas: how many machines to ask for from now on.
        text: what happened, for an event; empty when there is nothing to tell.

    """

    annotations: Mapping[str, str | None]
    replicas: int
    text: str = ""


def overdue(deployment: MachineDeployment, now: float, since: float = float("-inf")) -> Overdue | None:
    """What to do about machines that were asked for and have not come; None when there is nothing to do.

    ``since`` is when all of its machines were last there: one that vanished is replaced from then on, and is no failure
    of the cloud before its time is over.

    After the time that machines may take, a failure is counted and they get that time once more; after as many failures
    as the deployment allows, the machines are given up and the pool is passed by for a while.
    """
    notes = deployment.metadata.annotations or {}
    replicas, ready = deployment.spec.replicas or 0, deployment.status.ready_replicas or 0
    failures = min(_number(notes.get(PROVISION_FAILURES), 0), MOST_FAILURES)
    if ready >= replicas:
        # After a back-off the count stays until machines that were asked for since have come.
        healed = failures and scaled_at(deployment) > _time(notes.get(BACKOFF_UNTIL))
        return Overdue({PROVISION_FAILURES: None, BACKOFF_UNTIL: None}, replicas) if healed else None
    begun = _time(notes.get(SCALED_AT))
    patience = _positive(notes.get(PROVISION_TIME), PROVISION_SECONDS)
    if not isfinite(begun) or now - max(begun, since) < patience:
        return None
    failures += 1
    retries = max(0, _number(notes.get(PROVISION_RETRIES), 0))
    missing = replicas - ready
    if failures <= retries:
        text = f"{missing} machines have not come within {patience:.0f} s, failure {failures} of {retries + 1}"
        return Overdue({PROVISION_FAILURES: str(failures), SCALED_AT: rfc3339(now)}, replicas, text)
    rest = min(BACKOFF_SECONDS * 2 ** min(failures - retries - 1, 10), LONGEST_BACKOFF)
    until = rfc3339(now + rest)
    text = f"{missing} machines have not come within {patience:.0f} s: others are asked for instead until {until}"
    kept = max(ready, min(replicas, _least(notes) or 0))
    return Overdue({PROVISION_FAILURES: str(failures), BACKOFF_UNTIL: until, SCALED_AT: rfc3339(now)}, kept, text)


def scaled_at(deployment: MachineDeployment) -> float:
    """When the number of machines was changed last, seconds since 1970."""
    return _time((deployment.metadata.annotations or {}).get(SCALED_AT))


def _offered(notes: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in ("cpu", "memory", "ephemeral-disk"):
        if f"{CAPACITY}{name}" in notes:
            yield ("ephemeral-storage" if name == "ephemeral-disk" else name), notes[f"{CAPACITY}{name}"]
    if GPU_COUNT in notes:
        yield notes.get(GPU_TYPE, NVIDIA_GPU), notes[GPU_COUNT]


def _taints(text: str) -> Iterator[Taint]:
    """``key=value:Effect``, separated by commas."""
    for part in filter(None, text.split(",")):
        said, _, effect = part.rpartition(":")
        key, _, value = said.partition("=")
        yield Taint(key=key, value=value, effect=effect)


def _least(notes: Mapping[str, str]) -> int | None:
    try:
        return max(0, int(notes[MINIMUM]))
    except (KeyError, ValueError):
        return None


def _price(text: str | None) -> float | None:
    try:
        price = float(text) if text is not None else -1.0
    except ValueError:
        return None
    return price if isfinite(price) and price >= 0 else None


def _number(text: str | None, default: int) -> int:
    try:
        return int(text) if text is not None else default
    except ValueError:
        return default


def _positive(text: str | None, default: float) -> float:
    seconds = duration_or_none(text)
    return default if seconds is None or seconds < 0 else seconds


def _time(text: str | None) -> float:
    return time_or(text, float("-inf"))
