"""What becomes of the nodes of one NodeCheck: which are due, are checked now, pass, or leave (pure)."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from unisono.api.annotations import EXIT_CODE, NODE_CHECK, RUN_SECONDS, SIMULATED
from unisono.api.base import ObjectMeta, OwnerReference
from unisono.api.core import Container, Node, Pod, PodSpec, Toleration
from unisono.api.core.pod import PodTemplateSpec
from unisono.api.groups.health import FAILURE, FAULT, FIRST, USE, NodeCheck
from unisono.api.kinds import NODE_CHECKS
from unisono.api.node_checks import CHECKING, FAILED, IN_USE, KEPT, LIFTED, PASSED, WAITING, CheckRule, Mark
from unisono.api.times import format_duration

SETTLE: Final = 1.0
"""Seconds between the closing of a node and its check: what was decided before is seen by then."""
GRACE: Final = 30.0
"""Seconds after the end of a try in which a kubelet may tell the outcome."""
_IMAGE = "busybox:stable"
_LONGEST_NAME = 63
_OPEN = (PASSED, KEPT, LIFTED)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the pod of a try ended: whether it passed, and what it said."""

    passed: bool
    words: str


@dataclass(frozen=True, slots=True)
class Seen:
    """One node of a check.

    Attributes:
        name: of the node.
        mark: how it stands with the check; None: nothing is known.
        out: the check because of which it is in quarantine, `BY_HAND`, or empty.
        used: pods on it use it.
        released: when the last pod that used it has ended, as far as that is known, seconds since 1970.
        failed: the same of pods of jobs that failed there.
        faulted: when the last fault was told of it, seconds since 1970.
        faults: what is left of the counts of its faults, and ``told`` which these are.
        usable: it is ready and not cordoned.
        busy: another check is at work there.
        tried: there is a pod of the present try.
        outcome: of the present try; None while there is none.
    """

    name: str
    mark: Mark | None = None
    out: str = ""
    used: bool = False
    released: float = -math.inf
    failed: float = -math.inf
    faulted: float = -math.inf
    faults: float = 0.0
    told: str = ""
    usable: bool = True
    busy: bool = False
    tried: bool = True
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be written of one node.

    Attributes:
        node: its name.
        mark: its new mark.
        why: what is told, where it failed or has passed.
        out: it gets the taint.
        back: it loses the taint.
        faulty: it leaves because of its faults, without a check.
    """

    node: str
    mark: Mark
    why: str = ""
    out: bool = False
    back: bool = False
    faulty: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """All steps of a look, and in how many seconds something is due by itself."""

    steps: tuple[Step, ...]
    again: float | None = None


def plan(rule: CheckRule, nodes: Sequence[Seen], now: float) -> Plan:
    """One step at most for each node: nodes that have waited longest are checked first.

    No more nodes are taken out than ``spec.maxQuarantined`` lets, and no more are checked at a time than
    ``spec.maxConcurrent``; a node that may have failed because of a faulty check stays in use.
    """
    out = sum(each.out == rule.name for each in nodes)
    free = rule.at_a_time(len(nodes)) - sum(each.mark is not None and each.mark.state == CHECKING for each in nodes)
    most_out, steps, times = rule.most_out(len(nodes)), list[Step](), list[float]()
    for each in sorted(nodes, key=lambda one: (one.mark.since if one.mark is not None else now, one.name)):
        mark = each.mark
        if round(each.faults) >= rule.faults and out < most_out and not each.out and _is_there(mark):
            step: Step | None = Step(each.name, Mark(FAILED, now), f"{each.told} lately", out=True, faulty=True)
            out += 1
        elif mark is not None and mark.state == CHECKING:
            step = _tried(rule, each, mark, now, may_leave=out < most_out)
            out += step is not None and step.out
        elif mark is not None and mark.state == WAITING:
            step = _begun(each, mark, now) if free > 0 else _used_again(each, now)
            free -= step is not None and step.mark.state == CHECKING
        else:
            step = _due(rule, each, now)
        if step is not None:
            steps.append(step)
        times.extend(_times(rule, each, step))
    return Plan(tuple(steps), min((max(time - now, 0.5) for time in times if time < math.inf), default=None))


def _is_there(mark: Mark | None) -> bool:
    """Whether the node has not left, or come back, already."""
    return mark is None or mark.state != FAILED


def _tried(rule: CheckRule, node: Seen, mark: Mark, now: float, *, may_leave: bool) -> Step | None:
    outcome = node.outcome
    if outcome is None and now >= mark.since + rule.timeout + GRACE:
        if not node.tried:  # nobody has let its pod be made: that says nothing about the node
            return Step(node.name, Mark(CHECKING, now, mark.attempt))
        outcome = Outcome(passed=False, words=f"no answer within {format_duration(rule.timeout)}")
    if outcome is None:
        return None
    if outcome.passed:
        return Step(node.name, Mark(PASSED, now), outcome.words)
    if mark.attempt < rule.tries:
        return Step(node.name, Mark(CHECKING, now, mark.attempt + 1), outcome.words)
    if may_leave:
        return Step(node.name, Mark(FAILED, now), outcome.words, out=True)
    return Step(node.name, Mark(KEPT, now), outcome.words)


def _begun(node: Seen, mark: Mark, now: float) -> Step | None:
    if node.used:
        return _used_again(node, now)
    return (
        Step(node.name, Mark(CHECKING, now, 1))
        if node.usable and not node.busy and now >= mark.since + SETTLE
        else None
    )


def _used_again(node: Seen, now: float) -> Step | None:
    """A job that was placed before the node was closed runs there: the check waits for its end."""
    return Step(node.name, Mark(IN_USE, now)) if node.used else None


def _due(rule: CheckRule, node: Seen, now: float) -> Step | None:
    """Whether a node that is neither waiting nor being checked has to be."""
    mark = node.mark
    if mark is not None and mark.state == FAILED:
        if node.out != rule.name:
            return Step(node.name, Mark(LIFTED, now), "its taint was removed")
        again = now >= mark.since + rule.quarantine_seconds
        return Step(node.name, Mark(WAITING, now), "its time is over", back=True) if again else None
    next_mark = Mark(IN_USE if node.used else WAITING, now)
    if mark is not None and mark.state == IN_USE:
        return None if node.used else Step(node.name, next_mark)
    since = rule.created if mark is None else mark.since
    first = mark is None and FIRST in rule.when
    ended = USE in rule.when and (node.used or node.released >= since)
    failed = FAILURE in rule.when and node.failed >= since
    faulty = FAULT in rule.when and node.faulted >= since
    idle = not node.used and now >= since + rule.idle_every
    return Step(node.name, next_mark) if first or ended or failed or faulty or idle else None


def _times(rule: CheckRule, node: Seen, step: Step | None) -> Iterator[float]:
    """When something is due of itself, seconds since 1970."""
    mark = node.mark if step is None else step.mark
    if mark is None:
        yield rule.created + rule.idle_every
    elif mark.state == CHECKING:
        yield mark.since + rule.timeout + GRACE
    elif mark.state == WAITING:
        # One that cannot be begun waits for an event.
        if step is not None or node.usable:
            yield mark.since + SETTLE
    elif mark.state == FAILED:
        yield mark.since + rule.quarantine_seconds
    elif mark.state in _OPEN:
        yield mark.since + rule.idle_every


def counts(rule: CheckRule, nodes: Sequence[Seen]) -> dict[str, int]:
    """Numbers of the status, by field."""
    states = Counter("" if each.mark is None else each.mark.state for each in nodes)
    return {
        "nodes": len(nodes),
        "passed": states[PASSED] + states[LIFTED],
        "waiting": states[WAITING] + states[IN_USE],
        "checking": states[CHECKING],
        "quarantined": sum(each.out == rule.name for each in nodes),
        "kept": states[KEPT],
    }


def suspicion(rule: CheckRule, nodes: Sequence[Seen]) -> str:
    """Why the check is suspected; empty where it is not."""
    kept = sorted(each.name for each in nodes if each.mark is not None and each.mark.state == KEPT)
    out, most = sum(each.out == rule.name for each in nodes), rule.most_out(len(nodes))
    if not kept or out < most:
        return ""
    return (
        f"{out} of {len(nodes)} nodes are out, and no more than {most} may be (spec.maxQuarantined): {len(kept)} that "
        f"failed since stay in use, such as {kept[0]}. Look at the check itself, then lift quarantines"
    )


def pod_of(check: NodeCheck, rule: CheckRule, node: Node, mark: Mark) -> Pod:
    """The pod of a try, bound to its node. A simulated node says how it ends, as pods do."""
    meta, spec = check.metadata, check.spec
    template = spec.template or PodTemplateSpec(
        spec=PodSpec(containers=[Container(name="check", image=spec.image or _IMAGE, command=spec.command)])
    )
    given = template.metadata
    notes = dict(given.annotations or {})
    if (node.metadata.labels or {}).get(SIMULATED) is not None:
        said = {key: text for key in (RUN_SECONDS, EXIT_CODE) if (text := (node.metadata.annotations or {}).get(key))}
        notes = {RUN_SECONDS: "1", **notes, **said}
    name = node.metadata.name
    return Pod(
        metadata=ObjectMeta(
            name=pod_name(meta.name, name, node.metadata.uid or "", mark),
            namespace=pods_namespace(check),
            labels={**(given.labels or {}), NODE_CHECK: meta.name},
            annotations=notes or None,
            owner_references=[
                OwnerReference(
                    api_version=NODE_CHECKS.api_version, kind=NODE_CHECKS.kind, name=meta.name, uid=meta.uid or ""
                )
            ],
        ),
        spec=msgspec.structs.replace(
            template.spec,
            node_name=name,
            restart_policy="Never",
            active_deadline_seconds=max(int(rule.timeout), 1),
            tolerations=[Toleration(operator="Exists")],
        ),
    )


def pods_namespace(check: NodeCheck) -> str:
    """Where its pods are made."""
    return check.spec.namespace or "default"


def pod_name(check: str, node: str, uid: str, mark: Mark) -> str:
    """The name of the pod of a try: the same for the same one."""
    digest = hashlib.sha256(f"{check}/{node}/{uid}/{mark.since:.0f}/{mark.attempt}".encode()).hexdigest()[:10]
    return f"{f'check-{check}-{node}'[: _LONGEST_NAME - 11].rstrip('.-')}-{digest}"


def outcome_of(pod: Pod) -> Outcome | None:
    """How the pod of a try ended; None while it runs."""
    if pod.status.phase == "Succeeded":
        return Outcome(passed=True, words="")
    if pod.status.phase != "Failed":
        return None
    ends = [
        each.state.terminated
        for each in pod.status.container_statuses or ()
        if each.state is not None and each.state.terminated is not None
    ]
    bad = next((each for each in ends if each.exit_code), None)
    said = f"exit code {bad.exit_code}" if bad is not None else ""
    text = next((text for text in (bad.message if bad is not None else None, pod.status.message) if text), "")
    words = ": ".join(part for part in (pod.status.reason or said, " ".join(text.split())[:200]) if part)
    return Outcome(passed=False, words=words or "it failed")
