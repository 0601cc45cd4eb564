"""All fixes of one explanation, in the order in which they are offered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from unisono.api.decode import decode
from unisono.api.kind_families import DEPLOYMENTS
from unisono.api.kinds import JOBS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, POD_GROUPS, QUEUES
from unisono.api.messages import closed_queue_in
from unisono.api.queues import reserved_queue_in
from unisono.api.resources import to_units
from unisono.api.verdict import Verdict
from unisono.errors import ApiError
from unisono.jobkinds.registry import handed_to, pods_wanted, state_of
from unisono.sdk import foreign
from unisono.sdk.fixes import of_objects
from unisono.sdk.fixes.change_texts import change_text
from unisono.sdk.fixes.fix import Fix
from unisono.sdk.fixes.limit_ranges import lowered_minimum
from unisono.sdk.fixes.of_changes import FixMaker
from unisono.sdk.fixes.of_objects import for_fields, named
from unisono.sdk.fixes.operations import patch
from unisono.sdk.fixes.owners import Raw, makes_pods, owner_of_group, read, root_of, writer_of
from unisono.sdk.fixes.pod_specs import claims_of
from unisono.sdk.fixes.references import for_missing
from unisono.sdk.follow.owner_state import missing_now, rollout_of
from unisono.sdk.reasons.failed_flows import begun_again
from unisono.sdk.reasons.misnamed_groups import renamed
from unisono.sdk.reasons.refusal_causes import closed_queues, quota_verdict, with_meant
from unisono.sdk.state.waiting import SCHEDULER, Misnamed, suspended_by

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient
    from unisono.sdk.reasons.explanation import Explanation

# Verdicts of a queue for whose jobs fixes are made.
_MOST_JOBS = 10


async def offer_fixes(client: HttpClient, told: Explanation, item: Raw | None) -> list[Fix]:
    """What would help, with the requests that do it.

    Args:
        client: the server.
        told: the explanation so far.
        item: the object, as the server sent it; None for a queue, whose verdicts are of different jobs.
    """
    if told.silent:
        return []
    root = await root_of(client, item) if item is not None and _needs_owner(told) else item
    fixes: list[Fix] = []
    for verdict in told.verdicts[:_MOST_JOBS]:
        namespace = verdict.job.partition("/")[0]
        owner = root if root is not None and makes_pods(root) else await owner_of_group(client, verdict.job)
        fixes += await _of_verdict(FixMaker(client, owner, namespace), verdict)
    if root is None:
        return fixes
    return await _offered(client, told, root, fixes)


async def candidates(client: HttpClient, told: Explanation, item: Raw) -> list[Fix]:
    """What may be part of a fix: of every fact in the explanation, whichever of them it names first."""
    if told.silent or not (told.verdicts or told.refused):
        return []
    root = await root_of(client, item)
    namespace = root["metadata"].get("namespace", "default")
    fixes: list[Fix] = []
    for verdict in told.verdicts:
        owner = root if makes_pods(root) else await owner_of_group(client, verdict.job)
        maker = FixMaker(client, owner, namespace)
        changes = [*verdict.candidates, *_smaller_gang(verdict, root)]
        fixes += [await maker.fix({**one, "tried": False}, change_text(one)) for one in changes]
        if reserved := reserved_queue_in(verdict.message):
            queue = await read(client, QUEUES, reserved, None)
            fixes += [of_objects.admitted(queue, namespace)] if queue is not None else []
    fixes += [*await _released(client, root, namespace), *_rolled_in_place(root)]
    for refusal in told.refused:
        missing = max(missing_now(root, 0), 1)
        quota = quota_verdict(refusal, f"{namespace}/{root['metadata']['name']}", missing)
        if quota is not None:
            fixes.append(await FixMaker(client, root, namespace).fix(quota.change, change_text(quota.change)))
        fixes += [
            *named(root, refusal.message),
            *of_objects.allowed(root, refusal.message),
            *await lowered_minimum(client, namespace, refusal.message),
            *await _smaller_with_overhead(FixMaker(client, root, namespace), refusal.message),
        ]
    return fixes


def _rolled_in_place(root: Raw) -> Iterator[Fix]:
    """Of a rollout that may end none of its old pods before new ones are ready: they keep what these need."""
    rollout = rollout_of(decode(DEPLOYMENTS, root).obj) if root["kind"] == DEPLOYMENTS.kind else None
    if rollout is not None and rollout.ready and not rollout.missing:
        field = "spec.strategy.rollingUpdate.maxUnavailable"
        yield of_objects.set_to(root, field, 1, f"set {field} to 1: an old pod goes before a new one comes")


def _smaller_gang(verdict: Verdict, root: Raw) -> Iterator[dict[str, Any]]:
    """Of a gang of more pods than are wanted at all: it never starts, whatever else keeps it."""
    desired = pods_wanted(root)
    if 0 < desired < verdict.tasks_needed:
        yield {"kind": "LowerMinAvailable", "to": desired}


async def _smaller_with_overhead(maker: FixMaker, message: str) -> list[Fix]:
    """Of pods that are larger than a LimitRange allows for what their RuntimeClass adds."""
    most = {one[1]: to_units(one[1], one[3]) for one in foreign.MOST.finditer(message[: foreign.LONGEST])}
    if not most or not await maker.adds_overhead():
        return []
    change = {"kind": "RequestAtMost", "amounts": most, "tried": False}
    return [await maker.fix(change, change_text(change))]


async def _released(client: HttpClient, root: Raw, namespace: str) -> list[Fix]:
    """Let volumes go whose claim was deleted, for claims of the same name that the job's pods mount."""
    names = claims_of(root)
    try:
        listed = (await client.list(PERSISTENT_VOLUMES)).items if names else ()
    except ApiError:  # few users may
        return []
    fixes = []
    for volume in listed:
        claim_reference = volume.spec.claim_ref
        if (
            claim_reference is None
            or claim_reference.name is None
            or claim_reference.namespace != namespace
            or claim_reference.name not in names
            or volume.status.phase == "Bound"
        ):
            continue
        claim = await read(client, PERSISTENT_VOLUME_CLAIMS, claim_reference.name, namespace)
        if claim is not None and claim_reference.uid and claim["metadata"].get("uid") != claim_reference.uid:
            body = {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}}
            name = volume.metadata.name
            text = f"let volume {name} be bound again: take the UID of the deleted claim out of its claimRef"
            change = {"kind": "ReleaseVolume", "volume": name, "tried": False}
            fixes.append(Fix(text, False, change, (patch(PERSISTENT_VOLUMES, name, body),)))
    return fixes


async def _offered(client: HttpClient, told: Explanation, root: Raw, found: list[Fix]) -> list[Fix]:
    if told.failed_step is not None:
        found += await begun_again(client, told.failed_step, root["metadata"].get("namespace", "default"))
    if told.suspended:  # a controller writes the field of what it has made
        root = await writer_of(client, root, suspended_by)
    of_object = list(_of_object(told, root))
    smaller = [fix for fix in found if of_object and fix.change["kind"] == "LowerMinAvailable"]
    return [
        *(fix for fix in found if fix not in smaller),
        *of_object,
        *smaller,
        *await _of_stray_pods(client, told, root),
        *await _of_queue(client, _said(told), root),
    ]


def _misnamed(told: Explanation) -> Misnamed | None:
    return told.pods[0].misnamed if told.pods else told.misnamed


async def _of_stray_pods(client: HttpClient, told: Explanation, root: Raw) -> list[Fix]:
    """Of pods that name a PodGroup by a near miss of its name."""
    wrong = _misnamed(told)
    if wrong is None or wrong.kind != POD_GROUPS.kind or not wrong.near:
        return []
    return await renamed(client, root["metadata"].get("namespace", "default"), wrong)


async def against(client: HttpClient, item: Raw, refusal: str) -> list[Fix]:
    """What would let the server accept a change of an object that it has refused with this message."""
    root = await root_of(client, item)
    said = await with_meant(client, refusal, root["metadata"].get("namespace", "default"))
    return [*of_objects.allowed(root, said), *named(root, said), *await _of_queue(client, [said], root)]


def _said(told: Explanation) -> list[str]:
    """What the server and controllers said of what they refuse."""
    messages = [*(refusal.message for refusal in told.refused[:1]), *(pod.message for pod in told.pods[:1])]
    return [*messages, told.stalled]


async def _of_queue(client: HttpClient, texts: list[str], root: Raw) -> list[Fix]:
    """Of a PodGroup or job that the server refuses because its queue is closed, or for other namespaces."""
    namespace = root["metadata"].get("namespace", "default")
    if closed := next(filter(None, map(closed_queue_in, texts)), ""):
        opened = [{"kind": "OpenQueue", "queue": name} for name in await closed_queues(client, closed)]
        change = opened[0] if len(opened) == 1 else {"kind": "Together", "changes": opened}
        return [await FixMaker(client, root, namespace).fix({**change, "tried": False}, change_text(change))]
    if reserved := next(filter(None, map(reserved_queue_in, texts)), ""):
        queue = await read(client, QUEUES, reserved, None)
        return [of_objects.admitted(queue, namespace)] if queue is not None else []
    return []


def _needs_owner(told: Explanation) -> bool:
    return bool(
        told.verdicts
        or told.suspended
        or told.refused
        or told.pods
        or told.containers
        or told.unseen
        or told.stalled
        or told.empty
    )


async def _of_verdict(maker: FixMaker, verdict: Verdict) -> list[Fix]:
    changes = [*([verdict.change] if verdict.change else []), *verdict.otherwise]
    made = [await maker.fix(change, change_text(change)) for change in changes]
    fixes = [fix for fix in made if not (fix.change["kind"] == "LowerMinAvailable" and fix.why_not)] or made
    if verdict.would_run_after and not verdict.would_run_after_count:
        change: dict[str, Any] = {"kind": "EvictPods", "pods": list(verdict.would_run_after)}
        fixes.append(await maker.fix(change, change_text(change)))
    return fixes


def _of_object(told: Explanation, root: Raw) -> Iterator[Fix]:
    if told.suspended:
        yield of_objects.resumed(root, told.suspended, above=bool(told.suspended_in))
    if JOBS.matches(root["apiVersion"], root["kind"]) and state_of(root)[0] == "Aborted":
        yield of_objects.restarted(root)
    for refusal in told.refused[:1]:
        yield from of_objects.allowed(root, refusal.message)
    messages = [*(refusal.message for refusal in told.refused[:1]), *(verdict.message for verdict in told.verdicts[:1])]
    messages += dict.fromkeys(container.message for container in told.containers)
    if told.kept is not None:
        yield told.kept.fix
    field, manager = handed_to(root) if told.stalled else ("", "")
    if manager:
        yield of_objects.set_to(root, field, None, f"remove {field}: the controllers here run it then")
    yield from for_fields(root, told.empty if told.kept is None else "", told.stalled, messages)
    wrong = _misnamed(told)
    if wrong is None:
        return
    if wrong.kind == SCHEDULER:
        yield of_objects.scheduled_by(root, wrong.near)
    elif wrong.kind == QUEUES.kind:
        yield from for_missing(root, foreign.Missing(wrong.kind, wrong.name, 0, wrong.near))
    elif wrong.kind == POD_GROUPS.kind and not wrong.near:
        yield of_objects.with_group(root, wrong.name)
