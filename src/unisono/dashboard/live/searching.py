"""Why one job waits, looked for as ``unisono explain`` does: with changes that are tried on a copy of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api import kinds
from unisono.dashboard.live.configuration import may_carry_out
from unisono.dashboard.live.elsewhere import CannotTell, elsewhere
from unisono.dashboard.live.explaining import explain
from unisono.dashboard.views.explanation import explanation_view, fix_id
from unisono.dashboard.views.why import ExplanationView
from unisono.kube.discovery import request_json
from unisono.kube.http import HttpClient
from unisono.sdk.fixes.fix import Fix, Operation
from unisono.sdk.mending.explanations import mended
from unisono.sdk.reasons.explaining import NothingToExplain

if TYPE_CHECKING:
    from unisono.api.kind import Kind
    from unisono.kube.kubeconfig import ClusterConfig

# Within this time an answer is reused: it costs seconds of CPU time.
_FRESH_SECONDS = 60.0
# What was shown can be carried out for so long: the server decides then what may be done.
_KEPT_SECONDS = 900.0
_MOST_KEPT = 64


@dataclass(slots=True)
class Found:
    """What one search has found, and when (seconds of a monotonic clock)."""

    at: float
    view: ExplanationView
    fixes: dict[str, Fix] = field(default_factory=dict)


class Searches:
    """What was found lately, by job; of one world."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], Found] = {}

    def fresh(self, kind: Kind[Any], namespace: str, name: str, now: float) -> ExplanationView | None:
        """What was found a short time ago."""
        cached = self._found.get((kind.resource, namespace, name))
        return cached.view if cached is not None and now - cached.at <= _FRESH_SECONDS else None

    def fix(self, kind: Kind[Any], namespace: str, name: str, wanted: str, now: float) -> Fix | None:
        """A fix that was shown, by its id."""
        cached = self._found.get((kind.resource, namespace, name))
        return cached.fixes.get(wanted) if cached is not None and now - cached.at <= _KEPT_SECONDS else None

    def keep(self, kind: Kind[Any], namespace: str, name: str, found: Found) -> None:
        """Note it; the oldest one is forgotten where there are too many."""
        self._found.pop((kind.resource, namespace, name), None)
        while len(self._found) >= _MOST_KEPT:
            self._found.pop(next(iter(self._found)))
        self._found[kind.resource, namespace, name] = found


async def search(client: HttpClient, kind: Kind[Any], namespace: str, name: str, now: float) -> Found:
    """Look for what keeps a job and for changes after which it runs, in a process of its own.

    Args:
        client: with the viewer's credentials: where these may not read the cluster, nothing is tried.
        kind: of the job.
        namespace: of the job.
        name: of the job.
        now: seconds of a monotonic clock.

    Raises:
        CannotTell: the answer takes too long.
        ApiError: there is no such job, or the viewer may not see it.
    """
    # Who may not see the job is refused in the server's words, and at no cost.
    await client.get(kind, name, namespace)
    answer = await elsewhere(
        f"unisono explain {kind.plural}/{name} -n {namespace}",
        _found,
        client.config,
        kind.api_version,
        kind.kind,
        namespace,
        name,
    )
    fixes = [_fix(each) for each in answer["fixes"]]
    return Found(now, msgspec.convert(answer["view"], ExplanationView), {fix_id(each): each for each in fixes})


def _found(config: ClusterConfig, api_version: str, kind: str, namespace: str, name: str) -> dict[str, Any]:
    """In the other process."""
    from unisono.standalone.logs import configure_logs

    configure_logs(level="critical")  # a copy of the cluster works here, and this is no log of it
    resource_kind = kinds.find(api_version, kind)
    if resource_kind is None:
        raise CannotTell(f"there is no kind {kind} of {api_version}")
    return asyncio.run(_search(config, resource_kind, namespace, name))


async def _search(config: ClusterConfig, kind: Kind[Any], namespace: str, name: str) -> dict[str, Any]:
    client = HttpClient(config)
    try:
        item = await request_json(client, "GET", kind.path(namespace if kind.namespaced else None, name))
        live = {**item, "apiVersion": kind.api_version, "kind": kind.kind}
        try:
            explanation = await explain(client, kind, namespace, name)
            explanation = await mended(client, explanation, live, lambda copy: explain(copy, kind, namespace, name))
        except NothingToExplain as error:
            raise CannotTell(str(error)) from None
        allowed = {
            fix_id(fix): await asyncio.gather(*(may_carry_out(client, each) for each in fix.operations))
            for fix in explanation.fixes
        }
        return {"view": explanation_view(explanation, allowed), "fixes": [fix.json(0) for fix in explanation.fixes]}
    finally:
        await client.close()


def _fix(told: Mapping[str, Any]) -> Fix:
    """A fix as the other process has written it."""
    return Fix(
        text=told["text"],
        tried=told["tried"],
        change=told["change"],
        operations=tuple(_operation(each) for each in told.get("operations", ())),
        why_not=told.get("notApplicable", ""),
        warnings=tuple(told.get("warnings", ())),
    )


def _operation(told: Mapping[str, Any]) -> Operation:
    kind = kinds.find(told["apiVersion"], told["kind"])
    if kind is None:
        raise CannotTell(f"there is no kind {told['kind']} of {told['apiVersion']}")
    return Operation(
        verb=told["verb"],
        kind=kind,
        name=told["name"],
        namespace=told.get("namespace", ""),
        body=told.get("body"),
        patch_type=told.get("patchType", "merge"),
        subresource=told.get("subresource", ""),
    )
