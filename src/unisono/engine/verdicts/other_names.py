"""What a job's owner is told: references in texts are written out, or hidden where the configuration asks for it.

A verdict is written to objects of the job's namespace: users who may read those learn what it names. With
``names: namespace`` the names of other namespaces' objects are left out of every field; causes, numbers, queues and
nodes stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from unisono.engine.answers import Refusal
from unisono.engine.changes import Change, Together
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.reports import JobReport
from unisono.engine.verdict import ANOTHER_NAMESPACE, Holder, Verdict, has_references, shown


def for_readers(cycle: Cycle, verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """The verdicts by PodGroup key, as those who may read the PodGroup's namespace are told them.

    What actions have noted about jobs, from which conditions and events are worded, is put into the same words.
    """
    hide = not cycle.config.names_others
    for key, report in cycle.reports.items():
        _tell_report(report, _Reader(key.partition("/")[0] if hide else ""))
    return {key: _told(verdict, _Reader(key.partition("/")[0] if hide else "")) for key, verdict in verdicts.items()}


@dataclass(frozen=True, slots=True)
class _Reader:
    """A user who may read one namespace; ``""``: all of them."""

    namespace: str

    def may_see(self, name: str) -> bool:
        """Whether ``namespace/name`` is of the user's namespace."""
        return not self.namespace or name.partition("/")[0] == self.namespace

    def text(self, text: str) -> str:
        """The text as the user may read it."""
        return shown(text, self.namespace)

    def counts(self, counts: Mapping[str, int]) -> Mapping[str, int]:
        """Nodes by reason."""
        if not any(map(has_references, counts)):
            return counts
        totals: dict[str, int] = {}
        for text, nodes in counts.items():
            totals[self.text(text)] = totals.get(self.text(text), 0) + nodes
        return totals

    def holder(self, holder: Holder) -> Holder:
        """The holder, its name only where it may be seen."""
        seen = holder.kind == "Queue" or self.may_see(holder.name)
        return holder if seen else structs.replace(holder, name=ANOTHER_NAMESPACE)

    def changes(self, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        """Those that are about nothing of another namespace."""
        return tuple(filter(self._may_make, changes)) if self.namespace else changes

    def _may_make(self, change: Change) -> bool:
        if isinstance(change, Together):
            return all(map(self._may_make, change.changes))
        pods: Any = structs.asdict(change).get("pods", ())
        return all(map(self.may_see, pods))


def _told(verdict: Verdict, reader: _Reader) -> Verdict:
    texts = (verdict.message, verdict.suggestion, verdict.spared, *verdict.reasons, *verdict.ahead)
    if not (reader.namespace or any(map(has_references, texts))):
        return verdict  # as most are
    lists = (verdict.changes, verdict.untried, verdict.candidates)
    changes, untried, candidates = map(reader.changes, lists)
    suggestion = reader.text(verdict.suggestion)
    if (changes, untried, candidates) != lists:  # it may speak of one that is left out
        suggestion = ", or ".join(change.text() for change in changes)
    return structs.replace(
        verdict,
        message=reader.text(verdict.message),
        reasons=reader.counts(verdict.reasons),
        holders=tuple(map(reader.holder, verdict.holders)),
        suggestion=suggestion,
        changes=changes,
        untried=untried,
        candidates=candidates,
        ahead=tuple(map(reader.text, verdict.ahead)),
        would_run_after=tuple(filter(reader.may_see, verdict.would_run_after)),
        spared=reader.text(verdict.spared),
    )


def _tell_report(report: JobReport, reader: _Reader) -> None:
    def refusal(found: Refusal | None) -> Refusal | None:
        referring = found is not None and has_references(found.message)
        return replace(found, message=reader.text(found.message)) if found is not None and referring else found

    if report.fit is not None and any(map(has_references, report.fit.counts)):
        report.fit = replace(report.fit, counts=reader.counts(report.fit.counts))
    report.gate, report.invalid = refusal(report.gate), refusal(report.invalid)
    report.quota, report.pipelined = refusal(report.quota), refusal(report.pipelined)
