"""Verdicts as clients see them: the annotation that the scheduler keeps on every PodGroup that waits."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from unisono.api.annotations import VERDICT

if TYPE_CHECKING:
    from unisono.api.scheduling import PodGroup
    from unisono.kube.http import HttpClient

GROUP_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
# What every job goes through for a moment: nothing that a user could do, or would want to read.
PASSING = frozenset({"NoPods", "WaitingForBind"})
_UID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
POD_GROUPS_PATH = "/apis/scheduling.volcano.sh/v1beta1"


def parse_verdict(annotations: dict[str, str] | None) -> dict[str, Any] | None:
    """The verdict in an object's annotations; None when there is none that can be read."""
    text = (annotations or {}).get(VERDICT)
    try:
        verdict = json.loads(text) if text else None
    except ValueError:
        return None
    return verdict if isinstance(verdict, dict) else None


def summary_of(group: PodGroup | None) -> str:
    """One line on why the PodGroup's pods wait; empty when nothing is known."""
    verdict = parse_verdict(group.metadata.annotations) if group else None
    if verdict is None or verdict.get("cause") in PASSING:
        return ""
    suggestion = verdict.get("suggestion")
    return f"{verdict.get('message', '')}{f' (try: {suggestion})' if suggestion else ''}"


async def verdicts_of(client: HttpClient, kind: str, item: dict[str, Any]) -> list[dict[str, Any]]:
    """Verdicts that concern an object: of its PodGroup, or for a queue those of all its PodGroups.

    Raises:
        ApiError: the server cannot answer.
    """
    from unisono.cli.resources import request_json
    from unisono.errors import NotFound

    metadata = item["metadata"]
    namespace = metadata.get("namespace")
    scope = f"{POD_GROUPS_PATH}/namespaces/{namespace}/podgroups" if namespace else f"{POD_GROUPS_PATH}/podgroups"
    if kind == "PodGroup":
        groups = [item]
    elif kind == "Pod":
        names = [(metadata.get("annotations") or {}).get(key) for key in GROUP_ANNOTATIONS]
        name = next(filter(None, names), None)
        try:
            groups = [await request_json(client, "GET", f"{scope}/{name}")] if name else []
        except NotFound:
            groups = []
    elif kind in ("Queue", "Job"):
        listed = (await request_json(client, "GET", scope)).get("items") or []
        groups = [group for group in listed if _concerns(group, kind, metadata)]
    else:
        groups = []
    found = (parse_verdict(group["metadata"].get("annotations")) for group in groups)
    return [verdict for verdict in found if verdict]


def _concerns(group: dict[str, Any], kind: str, metadata: dict[str, Any]) -> bool:
    if kind == "Queue":
        return bool(((group.get("spec") or {}).get("queue") or "default") == metadata["name"])
    owners = group["metadata"].get("ownerReferences") or []
    return any(owner.get("uid") == metadata.get("uid") for owner in owners)


def verdict_lines(verdict: dict[str, Any], title: str = "") -> list[str]:
    """A verdict for people, one fact per line.

    Args:
        verdict: as the scheduler wrote it.
        title: what waits, as the user named it; without it the job that the verdict names.

    """
    who = title or _job_name(str(verdict.get("job", "")))
    lines = [f"{who} waits in queue {verdict.get('queue', '')}: {verdict.get('message', '')}"]
    facts = [
        ("cause", str(verdict.get("cause", ""))),
        ("need", amounts_text(verdict.get("need") or {})),
        ("have", amounts_text(verdict.get("have") or {})),
        ("gang", _gang(verdict)),
        ("nodes", _nodes(verdict)),
        ("held by", "; ".join(_holder(holder) for holder in verdict.get("holders") or [])),
        ("try", str(verdict.get("suggestion", ""))),
        ("or end", _pods(verdict)),
        ("spared", str(verdict.get("spared", ""))),
        ("off", _off(verdict)),
    ]
    return lines + [f"  {name + ':':<8} {text}" for name, text in facts if text]


def _job_name(key: str) -> str:
    """``namespace/name`` of a job from that of its PodGroup, which has the job's UID behind its name."""
    name = _UID.sub("", key)
    return key if name.endswith("/podgroup") else name


def amounts_text(amounts: dict[str, int]) -> str:
    """``cpu 80, memory 4Gi`` from engine units."""
    from unisono.api.resources import readable

    return ", ".join(f"{name} {amount}" for name, amount in readable(amounts).items())


def _pods(verdict: dict[str, Any]) -> str:
    """Pods of lower rank without which the job would run."""
    pods = verdict.get("wouldRunAfter") or []
    more = (verdict.get("wouldRunAfterCount") or 0) - len(pods)
    named = ", ".join(pods) + (f" and {more} more" if more > 0 else "")
    return f"{named} (lower priority, or of a queue above its share)" if pods else ""


def _off(verdict: dict[str, Any]) -> str:
    names = ", ".join(verdict.get("pluginsOff") or [])
    return f"plug-in {names} failed or was too slow and was switched off for the cycle" if names else ""


def _gang(verdict: dict[str, Any]) -> str:
    needed, found = verdict.get("tasksNeeded") or 0, verdict.get("tasksPlaceable") or 0
    if found > needed > 0:
        return f"{found} pods have found a place, at least {needed} needed"
    return f"{found} of {needed} {'pod' if needed == 1 else 'pods'} would find a place" if needed else ""


def _nodes(verdict: dict[str, Any]) -> str:
    reasons = ", ".join(f"{count} {reason}" for reason, count in (verdict.get("reasons") or {}).items())
    return f"{verdict.get('nodes', 0)} looked at: {reasons}" if reasons else ""


def _holder(holder: dict[str, Any]) -> str:
    held = amounts_text({name: amount for name, amount in (holder.get("amounts") or {}).items() if amount})
    name = f"{holder.get('kind', '')} {holder.get('name', '')}"
    return f"{name} ({held})" if held else name
