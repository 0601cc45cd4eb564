"""Checks of nodes as they are read, and what is written of them on nodes (pure).

The book of one node is its annotation ``unisono.io/node-checks``, such as
``gpus=Passed@2026-01-02T03:04:05Z,net=Checking:2@...``: by check the state, which try it is, and since when. A node
that is out has the taint ``unisono.io/quarantine`` with the name of the check, and says why in an annotation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from msgspec import to_builtins

from unisono.api.annotations import NODE_CHECKS, NODE_FAULTS, QUARANTINE
from unisono.api.base import IntOrString
from unisono.api.core import Node, Taint
from unisono.api.field_error import FieldError, forbidden, invalid, not_supported, required
from unisono.api.groups.health import FAILURE, FAULT, FIRST, USE, WHEN, NodeCheck, NodeCheckSpec
from unisono.api.licenses import is_floating
from unisono.api.node_faults import begun_again
from unisono.api.times import duration_or_none, parse_time, rfc3339, time_or

PASSED: Final = "Passed"
IN_USE: Final = "InUse"
WAITING: Final = "Waiting"
CHECKING: Final = "Checking"
FAILED: Final = "Failed"
KEPT: Final = "Kept"
"""It failed and is in use all the same: too many are out."""
LIFTED: Final = "Lifted"
"""Somebody has lifted its quarantine."""
_STATES = frozenset((PASSED, IN_USE, WAITING, CHECKING, FAILED, KEPT, LIFTED))
BY_HAND: Final = "by-hand"
"""Value of the taint of nodes that somebody has taken out; no check has this name."""

_MOST_MARKS = 32
_LONGEST = _MOST_MARKS * 120
_LONGEST_NAME = 63
_LONGEST_REASON = 512
_MOST_STARS = 8
_LONGEST_SECONDS = 366 * 86_400.0
_LONGEST_CHECK = 86_400.0
_MOST_RETRIES = 10
_MOST_FAULTS = 1000
_PERCENT = re.compile(r"([0-9]{1,3})%")


class Mark(NamedTuple):
    """How a node stands with one check: the state, since when (seconds since 1970), and the number of the try."""

    state: str
    since: float
    attempt: int = 0


def marks_of(text: str | None) -> dict[str, Mark]:
    """Marks by check; what cannot be read is left out, and what is too long is not read."""
    marks: dict[str, Mark] = {}
    for part in (text or "")[:_LONGEST].split(",")[:_MOST_MARKS]:
        name, _, rest = part.strip().partition("=")
        said, _, time = rest.partition("@")
        state, _, attempt = said.partition(":")
        since = time_or(time, -1.0)
        if name and state in _STATES and since >= 0:
            marks[name] = Mark(state, since, int(attempt) if attempt.isascii() and attempt.isdigit() else 0)
    return marks


def marks_text(marks: Mapping[str, Mark]) -> str:
    """The same as text, in order of the names."""
    return ",".join(
        f"{name}={one.state}{f':{one.attempt}' if one.attempt else ''}@{rfc3339(one.since)}"
        for name, one in sorted(marks.items())
    )


@dataclass(frozen=True, slots=True)
class CheckRule:
    """A NodeCheck as it is read.

    Attributes:
        name, created: of the object, seconds since the epoch.
        nodes, labels: which nodes are meant; those that fulfil both.
        when: a subset of `WHEN`.
        idle_every: seconds; infinite for never.
        resources: extended resources; empty for all.
        timeout: seconds of one try.
        tries: how often a node is tried.
        quarantine_seconds: infinite until somebody lifts it.
        faults: as many faults as are left in its book take a node out; infinite for none.
        concurrent, quarantined: as in the spec.
    """

    name: str
    created: float
    nodes: tuple[str, ...]
    labels: Mapping[str, str]
    when: frozenset[str]
    idle_every: float
    resources: frozenset[str]
    timeout: float
    tries: int
    quarantine_seconds: float
    faults: float
    concurrent: IntOrString
    quarantined: IntOrString

    def means(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the node is one of those that are checked."""
        return all(labels.get(key) == value for key, value in self.labels.items()) and (
            not self.nodes or any(fnmatchcase(name, each) for each in self.nodes)
        )

    def uses(self, resource: str) -> bool:
        """Whether a pod that has some of a resource uses its node."""
        return resource in self.resources if self.resources else "/" in resource and not is_floating(resource)

    def closes(self, mark: Mark | None, *, used: bool) -> bool:
        """Whether the node takes no jobs now; a quarantine is a taint and does that by itself.

        Args:
            mark: what the node's book says of the check.
            used: whether pods on it use it.
        """
        if mark is None:
            return FIRST in self.when and not used
        return mark.state in (WAITING, CHECKING) or (mark.state == IN_USE and not used)

    def at_a_time(self, nodes: int) -> int:
        """How many of so many nodes are checked at a time."""
        return _part(self.concurrent, nodes)

    def most_out(self, nodes: int) -> int:
        """How many of so many nodes may be out."""
        return _part(self.quarantined, nodes)


def _part(value: IntOrString, nodes: int) -> int:
    """A number, or a part of ``nodes``, of which it is 1 at least."""
    if isinstance(value, int):
        return value
    return max(int(value[:-1]) * nodes // 100, 1)


def rule_of(obj: NodeCheck) -> CheckRule:
    """Read an object.

    Raises:
        ValueError: it breaks a rule; the message names the field.
    """
    wrong = next(mistakes(obj), None)
    if wrong is not None:
        raise ValueError(wrong.message())
    spec, meta = obj.spec, obj.metadata
    return CheckRule(
        meta.name,
        parse_time(meta.creation_timestamp) if meta.creation_timestamp else 0.0,
        tuple(spec.nodes or ()),
        spec.node_selector or {},
        frozenset(WHEN if spec.when is None else spec.when),
        _seconds(spec.idle_every, math.inf),
        frozenset(spec.resources or ()),
        _seconds(spec.timeout, 300.0),
        1 + (1 if spec.retries is None else spec.retries),
        _seconds(spec.quarantine_for, math.inf),
        math.inf if spec.quarantine_after_faults is None else float(spec.quarantine_after_faults),
        "10%" if spec.max_concurrent is None else spec.max_concurrent,
        "30%" if spec.max_quarantined is None else spec.max_quarantined,
    )


def _seconds(text: str | None, default: float) -> float:
    seconds = duration_or_none(text)
    return default if seconds is None else seconds


def mistakes(obj: NodeCheck) -> Iterator[FieldError]:
    """What is wrong with a NodeCheck, but for the template's own rules."""
    name, spec = obj.metadata.name, obj.spec
    if len(name) > _LONGEST_NAME or name == BY_HAND:
        detail = f"must be no more than {_LONGEST_NAME} characters, and not {BY_HAND}: it is the value of a taint"
        yield invalid("metadata.name", name, detail)
    if not (spec.nodes or spec.node_selector):
        yield required("spec.nodes", 'name nodes, such as ["gpu-*"], or set nodeSelector')
    for index, each in enumerate(spec.nodes or ()):
        if not each or each.count("*") > _MOST_STARS or "[" in each:
            detail = f"must be a name, in which * and ? stand for others, with {_MOST_STARS} * at most"
            yield invalid(f"spec.nodes[{index}]", each, detail)
    for index, each in enumerate(spec.when or ()):
        if each not in WHEN:
            yield not_supported(f"spec.when[{index}]", each, WHEN)
    if spec.when == [] and spec.idle_every is None and spec.quarantine_after_faults is None:
        yield required("spec.when", f"say when nodes are checked: {FIRST}, {USE}, {FAILURE}, {FAULT}, or set idleEvery")
    for index, each in enumerate(spec.resources or ()):
        if "/" not in each or is_floating(each):
            yield invalid(f"spec.resources[{index}]", each, "must be an extended resource, such as nvidia.com/gpu")
    yield from _pods(spec)
    yield from _times(spec)


def _pods(spec: NodeCheckSpec) -> Iterator[FieldError]:
    if spec.template is None and not spec.command:
        yield required("spec.template", "say what checks a node: a template of a pod, or command")
    for field in ("image", "command"):
        if spec.template is not None and getattr(spec, field):
            yield forbidden(f"spec.{field}", "may not be set beside template")
    for field in ("max_concurrent", "max_quarantined"):
        value, wire = getattr(spec, field), "maxConcurrent" if field == "max_concurrent" else "maxQuarantined"
        if value is not None and not _is_part(value, 1 if field == "max_concurrent" else 0):
            yield invalid(f"spec.{wire}", value, "must be a number of nodes, or a part of them from 1% to 100%")
    faults = spec.quarantine_after_faults
    if faults is not None and not 1 <= faults <= _MOST_FAULTS:
        yield invalid("spec.quarantineAfterFaults", faults, f"must be from 1 to {_MOST_FAULTS}")
    if spec.retries is not None and not 0 <= spec.retries <= _MOST_RETRIES:
        yield invalid("spec.retries", spec.retries, f"must be from 0 to {_MOST_RETRIES}")


def _is_part(value: IntOrString, least: int) -> bool:
    if isinstance(value, int):
        return least <= value <= 1_000_000
    match = _PERCENT.fullmatch(value)
    return match is not None and 1 <= int(match[1]) <= 100


def _times(spec: NodeCheckSpec) -> Iterator[FieldError]:
    bounds = (
        ("timeout", spec.timeout, 1.0, _LONGEST_CHECK),
        ("idleEvery", spec.idle_every, 60.0, _LONGEST_SECONDS),
        ("quarantineFor", spec.quarantine_for, 60.0, _LONGEST_SECONDS),
    )
    for field, text, least, most in bounds:
        seconds = duration_or_none(text)
        if text is not None and (seconds is None or not least <= seconds <= most):
            detail = f"must be a duration such as 90m, of {least:g} to {most:g} seconds"
            yield invalid(f"spec.{field}", text, detail)


# Quarantine: the taint, and who has put it there.


def quarantined_by(taints: Iterable[Taint] | None) -> str:
    """The check because of which a node is out, `BY_HAND`, or empty."""
    return next((each.value or BY_HAND for each in taints or () if each.key == QUARANTINE), "")


def without_quarantine(taints: Sequence[Taint] | None) -> list[Taint]:
    """All other taints."""
    return [each for each in taints or () if each.key != QUARANTINE]


def quarantine(by: str, now: float) -> Taint:
    """The taint of a node that is taken out because of a check, or by hand."""
    return Taint(key=QUARANTINE, value=by, effect="NoSchedule", time_added=rfc3339(now))


def lifted(marks: Mapping[str, Mark], by: str, now: float, *, check: bool) -> dict[str, Mark]:
    """The book of a node whose quarantine is lifted: it takes jobs at once, or when it has passed its check again.

    Of a node that somebody took out by hand, all checks are meant.
    """
    if by == BY_HAND:
        return {name: Mark(WAITING, now) for name in marks} if check else dict(marks)
    return {**marks, by: Mark(WAITING if check else LIFTED, now)} if by in marks else dict(marks)


def book_of(annotations: Mapping[str, str] | None) -> dict[str, Mark]:
    """The marks of a node."""
    return marks_of((annotations or {}).get(NODE_CHECKS))


def checked(marks: Mapping[str, Mark]) -> dict[str, Mark]:
    """The book of a node once it has passed what it waits for or is being checked with."""
    return {
        name: Mark(PASSED, mark.since) if mark.state in (WAITING, CHECKING) else mark for name, mark in marks.items()
    }


def of_new_one(annotations: Mapping[str, str] | None, passed: Iterable[str], now: float) -> dict[str, str]:
    """The annotations of a node in whose place a new one is imagined: no faults, no quarantine, all checks passed.

    Args:
        annotations: of the node.
        passed: names of the checks that the new one has passed.
        now: when, seconds since 1970.
    """
    ours = (NODE_CHECKS, NODE_FAULTS, QUARANTINE)
    kept = {key: value for key, value in (annotations or {}).items() if key not in ours}
    marks = {name: Mark(PASSED, now) for name in passed}
    return {**kept, NODE_CHECKS: marks_text(marks)} if marks else kept


def lifting(node: Node, now: float, *, check: bool) -> dict[str, Any]:
    """The merge patch that lifts the quarantine of a node, whoever has put it there.

    Args:
        node: as it is; the patch holds for this version of it only.
        now: seconds since 1970.
        check: it takes jobs when it has passed the check again, in place of at once.
    """
    by = quarantined_by(node.spec.taints)
    marks = lifted(book_of(node.metadata.annotations), by, now, check=check)
    return {
        "metadata": {
            "resourceVersion": node.metadata.resource_version,
            "annotations": {
                NODE_CHECKS: marks_text(marks) or None,
                NODE_FAULTS: begun_again(node.metadata.annotations, now),
                QUARANTINE: None,
            },
        },
        "spec": {"taints": [to_builtins(each) for each in without_quarantine(node.spec.taints)] or None},
    }


def taking_out(node: Node, by: str, why: str, now: float, marks: Mapping[str, Mark] | None = None) -> dict[str, Any]:
    """The merge patch that takes a node out: because of a check whose ``marks`` say so, or `BY_HAND`."""
    taints = [*without_quarantine(node.spec.taints), quarantine(by, now)]
    notes = {QUARANTINE: why[:_LONGEST_REASON], **({} if marks is None else {NODE_CHECKS: marks_text(marks) or None})}
    return {
        "metadata": {"resourceVersion": node.metadata.resource_version, "annotations": notes},
        "spec": {"taints": [to_builtins(each) for each in taints]},
    }
