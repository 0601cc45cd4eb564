"""``unisono explain``: looks up the object that a user names and renders what the SDK knows of it."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api.times import parse_duration
from unisono.api.verdict import Cause, Verdict, job_name, to_json
from unisono.cli.printing import visible
from unisono.errors import NotFound
from unisono.jobkinds.registry import MAKES_JOBS
from unisono.sdk.reasons.explaining import (
    Explanation,
    NothingToExplain,
    explain_group,
    explain_owner,
    explain_pod,
    explain_queue,
    explain_workload_group,
)

if TYPE_CHECKING:
    from unisono.cli.options import Where
    from unisono.cli.targets import Target
    from unisono.engine.config.model import SchedulerConfig
    from unisono.kube.discovery import Resource, ResourceMap
    from unisono.kube.http import HttpClient
    from unisono.sdk.fixes.fix import Fix
    from unisono.simulator.forecast.forecast import Start

# When the PodGroups that are being explained may start: simulated futures of the cluster as it is.

LOOK_AHEAD = "24h"
"""How far ``explain --estimate`` looks ahead, and ``whatif`` where nothing else is said."""
FUTURES = 20
"""How many possible futures both simulate."""
_CPU_SECONDS = 10.0
"""CPU time that an estimate may take."""
QUICK_FUTURES, QUICK_SECONDS = 9, 2.0
"""The same for people who wait for the prompt: the fast model answers first, and the engine has little time."""
_SHOWN = 10


def estimated_starts(
    where: Where, groups: Collection[str], *, futures: int = FUTURES, seconds: float = _CPU_SECONDS
) -> list[Start]:
    """Estimates of those of these PodGroups (``namespace/name``) that wait, in their order.

    Args:
        where: the cluster.
        groups: which are asked about.
        futures: how many are simulated.
        seconds: CPU time that it may take.

    Raises:
        ApiError: the user may not list what the scheduler goes by, or the server cannot answer.
    """
    from unisono.cli.overview_lines import config_of, objects_of
    from unisono.cli.simulating import progress_bar
    from unisono.simulator.forecast.forecast import Budget, forecast

    budget = Budget.of(seconds, time.process_time)
    used, objects, until = config_of(where, (), None), objects_of(where, ()), parse_duration(LOOK_AHEAD)
    with progress_bar("futures") as tell:
        prediction = forecast(
            objects, used, time.time(), futures=futures, until=until, whole=False, budget=budget, progress=tell
        )
    starts = {each.key: each for each in prediction.starts}
    return [starts[key] for key in groups if key in starts]


def lines(starts: Collection[Start]) -> list[str]:
    """A line for each, with its PodGroup where there are several."""
    from unisono.cli.simulating import between, seconds

    if not starts:
        return ["  estimated start: none, as none of its PodGroups waits for a place"]
    output_lines = []
    late = f"not within {seconds(parse_duration(LOOK_AHEAD))}"
    for each in list(starts)[:_SHOWN]:
        of = f" of {each.key}" if len(starts) > 1 else ""
        if each.never:
            output_lines.append(f"  estimated start{of}: never, as things stand: {each.never}")
            continue
        middle = late if each.median is None else f"in {seconds(each.median)}"
        guess = "" if each.known else "; nothing says how long it runs"
        output_lines.append(f"  estimated start{of}: {middle} (80 %: {between(each)}, as things stand{guess})")
    if len(starts) > _SHOWN:
        output_lines.append(f"  and {len(starts) - _SHOWN} more (-o json lists all)")
    source = next(iter(starts)).source
    if source:
        output_lines.append(f"  estimated by {source}")
    return output_lines


def start_text(start: Start) -> str:
    """``may start in 8m 20s (80 %: 5m 00s to 12m 30s)``."""
    from unisono.cli.simulating import between, seconds

    if start.never:
        return f"cannot start as things stand: {start.never}"
    guess = "" if start.known else "; nothing says how long it runs"
    if start.median is None:
        return f"may not start within {seconds(parse_duration(LOOK_AHEAD))}{guess}"
    if start.median < 1.0:
        return f"may start at once{guess}"
    interval = "" if start.low == start.high else f" (80 %: {between(start)})"
    return f"may start in {seconds(start.median)}{interval}{guess}"


def starts_of(where: Where, waiting: Collection[str]) -> dict[str, Start]:
    """Estimates of PodGroups that wait (``namespace/name``), by their keys, from a few futures."""
    estimates = estimated_starts(where, waiting, futures=QUICK_FUTURES, seconds=QUICK_SECONDS) if waiting else []
    return {start.key: start for start in estimates}


# Verdicts for people, one fact per line.


def verdict_lines(verdict: Verdict, title: str = "") -> list[str]:
    """A verdict for people, one fact per line.

    Args:
        verdict: as the scheduler wrote it.
        title: what waits, as the user named it; without it the job that the verdict names.
    """
    from unisono.api.verdict import job_name
    from unisono.sdk.reasons.verdict_facts import verdict_facts

    who = title or job_name(verdict.job)
    queue = f" in queue {verdict.queue}" if verdict.queue else ""
    lines = [f"{who} waits{queue}: {verdict.message}"]
    return lines + [f"  {name + ':':<8} {text}" for name, text in verdict_facts(verdict)]


# Pods that are listed one by one.
_FAILURES = 3
# Commands of one fix that are listed.
_COMMANDS = 3


def explanation_json(told: Explanation) -> dict[str, Any]:
    """An explanation for programs."""
    return {
        "kind": told.kind,
        "name": told.name,
        "state": told.state,
        "verdicts": [to_json(verdict) for verdict in told.verdicts],
        "pods": [pod.json() for pod in told.pods],
        "waiting_containers": [container.json() for container in told.containers],
        "suspended_by": told.suspended,
        "failures": [pod.json() for pod in told.failures],
        "failing_again": [pod.json() for pod in told.loops],
        "refused": [refusal.json() for refusal in told.refused],
        "scheduler_silent": told.silent,
        "outdated_verdicts": [to_json(verdict) for verdict in told.outdated],
        "stalled": told.stalled,
        "unready": told.unready,
        "empty_by": told.empty,
        "configuration_error": told.configuration_error,
        "warnings": told.warnings,
        "running": [note.json() for note in told.running],
        "fixes": [fix.json(number) for number, fix in enumerate(told.fixes, start=1)],
        "then": told.then,
        "fleet": told.fleet.json(),
    }


def explanation_lines(told: Explanation) -> list[str]:
    """An explanation for people."""
    verdicts = told.verdicts
    lines = [told.state_line] if told.state_line else []
    if told.silent:
        lines += [f"  before that: {verdict.message}" for verdict in told.outdated]
    alone = _subject(told, verdicts)
    for verdict in verdicts:
        lines += verdict_lines(_with_gates(verdict, told.gates), alone)
    lines += [f"  {refusal}" for refusal in told.refused]
    texts = [str(pod) for pod in told.pods]
    looping = {pod.name for pod in told.loops}
    waiting = [each for each in told.containers if each.pod not in looping]
    texts += [f"pod/{each.pod}: {each}" for each in waiting] if told.kind != "Pod" else []
    lines += [f"  {text}" for text in texts[:_SHOWN]]
    if len(texts) > _SHOWN:
        lines.append(f"  and {len(texts) - _SHOWN} more")
    lines += [f"  then:    {cause}" for cause in told.then[bool(told.suspended) :]]
    lines += [f"  {note}" for note in told.fleet.lines()]
    lines += [f"  warning: {warning}" for warning in told.warnings]
    lines += [f"  {note}" for note in told.running]
    if told.configuration_error:
        lines.append(f"  the scheduler refuses its newest configuration: {told.configuration_error}")
    return [visible(line) for line in (*lines, *fix_lines(told.fixes), *_failure_lines(told))]


def fix_lines(fixes: Sequence[Fix], first: int = 1) -> list[str]:
    """The fixes by number, each with what does it on the command line."""
    lines = []
    for number, fix in enumerate(fixes[:_SHOWN], start=first):
        doubt = "not enough by itself" if fix.change.get("enough") is False else "" if fix.tried else "not tried"
        lines.append(f"  fix {number}:   {fix.text}{f' ({doubt})' if doubt else ''}")
        commands = [operation.kubectl() for operation in fix.operations]
        lines += [f"           {command}" for command in commands[:_COMMANDS]]
        if len(commands) > _COMMANDS:
            lines.append(f"           and {len(commands) - _COMMANDS} more commands, see --output json")
        if again := dict.fromkeys(operation.title for operation in fix.operations if operation.verb == "replace"):
            lines.append(
                f"           deletes {', '.join(again)} and makes it again: its pods, age and place in line are gone"
            )
        if fix.why_not:
            lines.append(f"           {fix.why_not}")
    return lines


def _subject(told: Explanation, verdicts: Sequence[Verdict]) -> str:
    """Who waits: the object, with the job where it makes jobs of other names; empty: each verdict's own job."""
    if len(verdicts) != 1 or told.kind == "Queue":
        return ""
    name = job_name(verdicts[0].job).rpartition("/")[2]
    own = told.kind in MAKES_JOBS and not name.startswith("podgroup-")  # that name tells users nothing
    return f"{told.title} (its job {name})" if own else told.title


def _with_gates(verdict: Verdict, gates: str) -> Verdict:
    if not gates or verdict.cause != Cause.GATED:
        return verdict
    _, also, more = verdict.message.partition(". Besides, ")
    return msgspec.structs.replace(verdict, message=f"{gates}{also}{more}")


def _failure_lines(told: Explanation) -> list[str]:
    failures = [*told.failures, *told.loops]
    if not failures:
        return []
    lines = [f"  {line}" for pod in failures[:_FAILURES] for line in pod.lines()]
    if len(failures) > _FAILURES:
        lines.append(f"  and {len(failures) - _FAILURES} more pods failed")
    return [*lines, f"  all lines: unisono logs {told.title}"]


async def explain(
    client: HttpClient,
    words: Sequence[str],
    namespace: str,
    *,
    search: bool = False,
    config: SchedulerConfig | None = None,
) -> Explanation:
    """Look an object up and say why it waits.

    Args:
        client: the server.
        words: ``KIND/NAME``, ``KIND NAME``, or the name of a job.
        namespace: where objects are that have one.
        search: look in a copy of the cluster for changes after which it runs.
        config: the scheduler's in that copy; None: the one in force is read.

    Raises:
        UnknownKind: the server has no such kind.
        NothingToExplain: objects of that kind have no pods.
        ApiError: the server cannot answer.
    """
    from unisono.cli.targets import one
    from unisono.kube.discovery import UnknownKind, discover

    resources = await discover(client)
    try:
        target = one(words, resources)
    except UnknownKind as error:
        raise UnknownKind(f"{error} Kinds that can be explained: {_known([*resources.resources])}.") from None
    word = words[0].partition("/")[0]
    resource, item = await _found(client, resources, target, word if resources.has(word) else "job", namespace)
    try:
        explanation = await explain_item(client, resource, item, f"{resources.typed(resource)}/{target.name}")
    except NothingToExplain as error:
        raise NothingToExplain(f"{error} Kinds that can be explained: {_known(resources.resources)}.") from None
    if not search:
        return explanation
    from unisono.sdk.mending.explanations import mended

    live = {"apiVersion": resource.api_version, "kind": resource.kind, **item}
    return await mended(client, explanation, live, lambda copy: explain(copy, words, namespace), config)


async def _found(
    client: HttpClient, resources: ResourceMap, target: Target, word: str, namespace: str
) -> tuple[Resource, dict[str, Any]]:
    """The object; where two kinds share the ``word`` that a user typed, one of the other kind if the first has none."""
    from unisono.kube.discovery import request_json

    first = target.resource
    shared = word.lower() in (first.singular, first.plural)
    found_none: NotFound | None = None
    for resource in (first, *(resources.also_called(first) if shared else ())):
        try:
            return resource, await request_json(client, "GET", resource.path(namespace, target.name))
        except NotFound as error:
            found_none = found_none or error
    assert found_none is not None
    raise found_none


async def explain_item(client: HttpClient, resource: Resource, item: dict[str, Any], title: str) -> Explanation:
    """Say why an object waits.

    Args:
        client: the server.
        resource: of the object.
        item: the object as the server sent it.
        title: as a user types it.

    Raises:
        NothingToExplain: objects of that kind have no pods.
        ApiError: the server cannot answer.
    """
    from unisono.cli.targets import object_of

    kind, obj = object_of(resource, item)
    match resource.group, resource.kind:
        case "scheduling.volcano.sh", "Queue":
            return await explain_queue(client, obj.metadata, item, title)
        case "scheduling.volcano.sh", "PodGroup":
            return await explain_group(client, obj.metadata, item, title)
        case "scheduling.k8s.io", "PodGroup" | "CompositePodGroup":
            return await explain_workload_group(client, obj.metadata, item, title)
        case "", "Pod":
            return await explain_pod(client, obj, title)
    live = {"apiVersion": resource.api_version, "kind": resource.kind, **item}
    return await explain_owner(client, resource.name, kind, obj, live, title)


def _known(served: Sequence[Resource]) -> str:
    """Kinds that have pods and that the server serves, as users type them."""
    from unisono.api.kinds import POD_GROUPS, PODS, QUEUES
    from unisono.jobkinds.registry import OWNERS

    explained = {kind.resource for kind in (*OWNERS, PODS, POD_GROUPS, QUEUES)}
    there = [each for each in served if each.name in explained]
    shared = {each.singular for each in there if sum(other.singular == each.singular for other in there) > 1}
    return ", ".join(sorted({each.title if each.singular in shared else each.singular for each in there}))
