"""An explanation of the SDK as the page shows it (pure)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import yaml

from unisono.api.times import time_or
from unisono.api.verdict import Verdict, job_name
from unisono.dashboard.views import why
from unisono.dashboard.views.table import amounts_text, counted, ordered, quantity
from unisono.dashboard.views.wire import JobRow
from unisono.sdk.fixes.fix import Fix, Operation
from unisono.sdk.reasons.explanation import Explanation
from unisono.sdk.reasons.verdict_facts import verdict_facts

_MOST_VERDICTS = 20
_MOST_LINES = 20
# Those facts have places of their own.
_SHOWN_ELSEWHERE = ("cause", "need", "have", "held by", "nodes")
_MOST = 100
_LONGEST = 1000


def explanation_view(told: Explanation, allowed: Mapping[str, Sequence[bool]]) -> why.ExplanationView:
    """What is known of why an object waits.

    Args:
        told: by the SDK.
        allowed: by the id of a fix, whether the viewer may do each of its operations.
    """
    notes = [str(refusal) for refusal in told.refused] + [str(pod) for pod in told.pods]
    notes += [f"pod/{each.pod}: {each}" for each in told.containers] + [str(note) for note in told.running]
    failures = [line for pod in (*told.failures, *told.loops) for line in pod.lines()]
    warnings = list(told.warnings)
    if told.configuration_error:
        warnings.append(f"the scheduler refuses its newest configuration: {told.configuration_error}")
    return why.ExplanationView(
        known=True,
        headline=told.headline,
        verdicts=[verdict_view(verdict, fixes=bool(told.fixes)) for verdict in told.verdicts[:_MOST_VERDICTS]],
        notes=[*notes[:_MOST_LINES], *failures[: 2 * _MOST_LINES]],
        warnings=warnings,
        fixes=[fix_view(fix, allowed.get(fix_id(fix), ())) for fix in told.fixes],
    )


def verdict_view(verdict: Verdict, *, fixes: bool = False) -> why.VerdictView:
    """A verdict with its numbers; what to try is said once where there are fixes for it."""
    elsewhere = (*_SHOWN_ELSEWHERE, "try") if fixes else _SHOWN_ELSEWHERE
    names = ordered(dict.fromkeys((*verdict.need, *verdict.have)))
    root, *more = verdict.message.split("; ")
    return why.VerdictView(
        job=job_name(verdict.job),
        cause=verdict.cause,
        message=verdict.message,
        queue=verdict.queue,
        root=root,
        more=more,
        position=verdict.position,
        ahead=[job_name(each) for each in verdict.ahead],
        amounts=[
            why.Amount(
                name=name,
                need=quantity(name, verdict.need[name]) if name in verdict.need else "",
                have=quantity(name, verdict.have[name]) if name in verdict.have else "",
                short=name in verdict.have and verdict.have[name] < verdict.need.get(name, 0),
            )
            for name in names
        ],
        needed=verdict.tasks_needed,
        placeable=verdict.tasks_placeable,
        reasons=counted(verdict.reasons),
        nodes=verdict.nodes,
        holders=[
            why.HolderLine(kind=holder.kind, name=holder.name, amounts=amounts_text(holder.amounts))
            for holder in verdict.holders
        ],
        facts=[why.Fact(name=name, text=text) for name, text in verdict_facts(verdict) if name not in elsewhere],
    )


def with_people(view: why.ExplanationView, rows: Iterable[JobRow]) -> why.ExplanationView:
    """The same with the users of the jobs that hold what is missing, and when these end."""
    holder_names = {holder.name for verdict in view.verdicts for holder in verdict.holders if "/" in holder.name}
    rows_by_name = (
        {name: row for row in rows if (name := f"{row.namespace}/{row.name}") in holder_names} if holder_names else {}
    )
    for verdict in view.verdicts:
        for holder in verdict.holders:
            if (row := rows_by_name.get(holder.name)) is not None:
                holder.user, holder.ends = row.user, row.ends
    return view


def fix_id(fix: Fix) -> str:
    """Names a fix by all that it would do, so that only the one that was shown is carried out."""
    encoded = msgspec.json.encode(fix.json(0), order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:24]


def fix_view(fix: Fix, allowed: Sequence[bool]) -> why.FixView:
    """A fix with its requests."""
    rights = [*allowed, *([False] * (len(fix.operations) - len(allowed)))]
    operations = [_operation(each, right) for each, right in zip(fix.operations, rights, strict=False)]
    return why.FixView(
        id=fix_id(fix),
        text=fix.text,
        tried=fix.tried,
        why_not=fix.why_not,
        allowed=bool(operations) and all(each.allowed for each in operations),
        operations=operations,
    )


def _operation(operation: Operation, allowed: bool) -> why.OperationView:
    body = "" if operation.body is None else yaml.safe_dump(operation.body, sort_keys=False, default_flow_style=False)
    return why.OperationView(
        title=operation.title, verb=operation.verb, body=body, kubectl=operation.kubectl(), allowed=allowed
    )


def event_rows(events: Iterable[Mapping[str, Any]], uids: Collection[str]) -> list[why.EventRow]:
    """Those events that are about the objects with these UIDs, the newest first."""
    rows = [_row(event) for event in events if (event.get("involvedObject") or {}).get("uid") in uids]
    return sorted(rows, key=lambda row: (-row.time, row.key))[:_MOST]


def _row(event: Mapping[str, Any]) -> why.EventRow:
    about, meta = event.get("involvedObject") or {}, event.get("metadata") or {}
    series = event.get("series") or {}
    times = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event.get("firstTimestamp"),
        meta.get("creationTimestamp"),
    )
    return why.EventRow(
        key=str(meta.get("uid") or meta.get("name") or ""),
        time=time_or(next((str(time) for time in times if time), "")),
        type=str(event.get("type") or "Normal"),
        reason=str(event.get("reason") or ""),
        message=str(event.get("message") or "")[:_LONGEST],
        about=f"{str(about.get('kind') or '').lower()}/{about.get('name') or ''}",
        count=int(series.get("count") or event.get("count") or 1),
    )
