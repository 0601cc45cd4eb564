"""What a job's owner is told, without names of other namespaces, where the configuration asks for it.

A verdict is written to objects of the job's namespace: users who may read those learn what it names. The names of other
namespaces' jobs and pods are taken out of every field; causes, numbers, queues and nodes stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from msgspec import structs

from unisono.cluster.snapshot import Snapshot
from unisono.engine.answers import Refusal
from unisono.engine.changes import Change, Together
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.reports import JobReport
from unisono.engine.verdict import ANOTHER_NAMESPACE, Holder, Verdict

# "pod ns/p", "deployment ns/web" or "ns/train"; reasons of nodes, labels and amounts have slashes as well.
_NAME = re.compile(
    r"(?<![\w./-])(?:(?P<kind>pod|deployment|statefulset|daemonset|jobset|job|PodGroup) )?"
    r"(?P<name>[a-z0-9](?:[-a-z0-9]*[a-z0-9])?/[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?)"
)


def hide_other_names(cycle: Cycle, verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """The verdicts by PodGroup key, without names of jobs and pods of other namespaces than the PodGroup's own.

    What actions have noted about jobs, from which conditions and events are worded, loses them as well.
    """
    known = _Namespaces(cycle.session.snapshot)
    for key, report in cycle.reports.items():
        _hide_in_report(report, _Reader(key.partition("/")[0], known))
    return {key: _hidden(verdict, _Reader(key.partition("/")[0], known)) for key, verdict in verdicts.items()}


class _Namespaces:
    """Which words are namespaces with jobs or pods; all pods are looked through only where a word is not known yet."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._tasks = snapshot.tasks
        self._of_jobs = {key.partition("/")[0] for key in snapshot.jobs}

    def __contains__(self, word: str) -> bool:
        return word in self._of_jobs or (not word.isdecimal() and word in self._of_tasks)

    @cached_property
    def _of_tasks(self) -> set[str]:
        return {key.partition("/")[0] for key in self._tasks}


@dataclass(frozen=True, slots=True)
class _Reader:
    """A user who may read one namespace."""

    namespace: str
    known: _Namespaces

    def may_not_see(self, name: str) -> bool:
        """Whether ``namespace/name`` is of another namespace."""
        of = name.partition("/")[0]
        return of != self.namespace and of in self.known

    def text(self, text: str) -> str:
        """The text without such names."""
        return _NAME.sub(self._word, text)

    def _word(self, found: re.Match[str]) -> str:
        return f"a {found['kind'] or 'job'} of {ANOTHER_NAMESPACE}" if self.may_not_see(found["name"]) else found[0]

    def counts(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Nodes by reason."""
        found: dict[str, int] = {}
        for text, nodes in counts.items():
            found[self.text(text)] = found.get(self.text(text), 0) + nodes
        return found

    def holder(self, holder: Holder) -> Holder:
        """The holder, its name only where it may be seen."""
        return replace(holder, name=ANOTHER_NAMESPACE) if self.may_not_see(holder.name) else holder

    def may_make(self, change: Change) -> bool:
        """Whether a change is about nothing of another namespace."""
        if isinstance(change, Together):
            return all(map(self.may_make, change.changes))
        pods: Any = structs.asdict(change).get("pods", ())
        return not any(map(self.may_not_see, pods))


def _hidden(verdict: Verdict, reader: _Reader) -> Verdict:
    changes = tuple(filter(reader.may_make, verdict.changes))
    suggestion = verdict.suggestion
    if reader.text(suggestion) != suggestion:
        suggestion = ", or ".join(change.text() for change in changes)
    return structs.replace(
        verdict,
        message=reader.text(verdict.message),
        reasons=reader.counts(verdict.reasons),
        holders=tuple(map(reader.holder, verdict.holders)),
        suggestion=suggestion,
        changes=changes,
        untried=tuple(filter(reader.may_make, verdict.untried)),
        candidates=tuple(filter(reader.may_make, verdict.candidates)),
        ahead=tuple(ANOTHER_NAMESPACE if reader.may_not_see(name) else name for name in verdict.ahead),
        would_run_after=tuple(name for name in verdict.would_run_after if not reader.may_not_see(name)),
        spared=reader.text(verdict.spared),
    )


def _hide_in_report(report: JobReport, reader: _Reader) -> None:
    def refusal(found: Refusal | None) -> Refusal | None:
        return found and replace(found, message=reader.text(found.message))

    if report.fit is not None:
        report.fit = replace(report.fit, counts=reader.counts(report.fit.counts))
    report.gate, report.invalid = refusal(report.gate), refusal(report.invalid)
    report.quota, report.pipelined = refusal(report.quota), refusal(report.pipelined)
