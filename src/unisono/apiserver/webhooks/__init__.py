"""Users' admission webhooks: they are asked before an object is stored, and may change or refuse it.

Asking takes time in which others write. So whatever must hold at the moment of writing is checked after the answers,
and a change is stored only over the object that the webhooks have seen.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from unisono.api.documents import apply_json_patch, same
from unisono.api.groups.admission_registration import (
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    ValidatingWebhook,
    WebhookClientConfig,
    does_our_work,
)
from unisono.api.kind import Kind
from unisono.api.kinds import NAMESPACES
from unisono.apiserver import encoding
from unisono.apiserver.admission import Request
from unisono.apiserver.flow_control import aside, weigh
from unisono.apiserver.storage.objects import Event
from unisono.apiserver.webhooks import review
from unisono.apiserver.webhooks.calling import Caller, CallError, HttpCaller, NoAnswer, Objects, address
from unisono.errors import ApiError
from unisono.kube.pace import Circuits

_log = structlog.get_logger(__name__)
# An admin's webhook that never answers must not take the time of all other writes, and one that is back counts soon.
_FAILURES = 5
_LONGEST_REST = 10.0


@dataclass(slots=True)
class Asked:
    """What came of asking: the object as JSON values when a webhook changed it, and warnings for the writer."""

    changed: dict[str, Any] | None
    warnings: list[str]


class Webhooks:
    """The webhooks of a store's configurations.

    Args:
        objects: the store, and the objects that decide which webhook is asked.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects, self._store = objects, objects.store
        self._http = HttpCaller()
        self.caller: Caller = self._http
        # Most writes meet no webhook at all, so that is known without a look at the store.
        self._known: dict[str, list[ValidatingWebhook]] = {}
        self.circuits = Circuits(time.monotonic, failures=_FAILURES, longest=_LONGEST_REST)
        self._store.listen(self._on_event)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    @property
    def present(self) -> bool:
        """Whether there are webhooks at all: where there are none, nothing need be prepared for them."""
        return bool(self._hooks(MUTATING_WEBHOOKS) or self._hooks(VALIDATING_WEBHOOKS))

    async def show(self, request: Request, *, dry_run: bool) -> list[str]:
        """Show what is acted on and not stored; ``request.object``, JSON values, becomes what webhooks make of it.

        Answers their warnings.

        Raises:
            ApiError: one refuses, or does not answer although it must.
        """
        asked = await self.mutate(request, dry_run=dry_run)
        if asked.changed is not None:
            request.object = asked.changed
        try:
            return [*asked.warnings, *await self.check(request, dry_run=dry_run)]
        except ApiError as error:
            error.warnings = tuple(asked.warnings)
            raise

    def wanted(self, request: Request, *, changing: bool) -> bool:
        """Whether a webhook has to be asked: where none has, a write goes on without a pause."""
        return any(True for _ in self._matching(request, changing=changing))

    async def mutate(self, request: Request, *, dry_run: bool) -> Asked:
        """Show a request to all webhooks that may change it, one after the other.

        Raises:
            ApiError: one refuses, or does not answer although it must.
        """
        asked = Asked(None, [])
        hooks = list(self._matching(request, changing=True))
        changers: list[int] = []
        for index, (hook, version) in enumerate(hooks):
            if await self._change(request, hook, version, asked, dry_run=dry_run):
                changers.append(index)
        for index, (hook, version) in enumerate(hooks):
            if review.again(hook) and any(later > index for later in changers):
                await self._change(request, hook, version, asked, dry_run=dry_run)
        return asked

    async def check(self, request: Request, *, dry_run: bool) -> list[str]:
        """Show a request to all webhooks that say yes or no; answers their warnings.

        Raises:
            ApiError: one refuses, or does not answer although it must.
        """
        warnings: list[str] = []
        for hook, version in self._matching(request, changing=False):
            answer = await self._ask(request, hook, version, None, changing=False, dry_run=dry_run)
            if answer is not None:
                warnings += answer.warnings
        return warnings

    async def _change(
        self, request: Request, hook: ValidatingWebhook, version: str, asked: Asked, *, dry_run: bool
    ) -> bool:
        answer = await self._ask(request, hook, version, asked.changed, changing=True, dry_run=dry_run)
        if answer is None:
            return False
        asked.warnings += answer.warnings
        if not answer.patch or request.operation == "DELETE":
            return False
        present = asked.changed
        if present is None:
            present = await aside(review.value, request, request.object, version)
        present = {**present, "apiVersion": review.api_version(request, version)}
        changed, same = await aside(_patched, present, answer.patch)
        if not isinstance(changed, dict):
            raise _failed(hook, "the patched object is no object")
        if same:
            return False
        asked.changed = {**changed, "apiVersion": review.api_version(request, request.kind.version)}
        return True

    async def _ask(
        self,
        request: Request,
        hook: ValidatingWebhook,
        version: str,
        changed: dict[str, Any] | None,
        *,
        changing: bool,
        dry_run: bool,
    ) -> review.Answer | None:
        """The answer of a webhook; None when it is not asked, or may fail and does."""
        where = address(hook.client_config)
        if hook.failure_policy == "Ignore" and self.circuits.resting(where):
            return None
        uid = self._objects.new_uid()
        new = changed if changed is not None else await aside(review.value, request, request.object, version)
        old = None if request.old is None else await aside(review.value, request, request.old, version)
        new = {**new, "apiVersion": review.api_version(request, version)}
        shown = (None, new) if request.operation == "DELETE" else (new, old)
        asked = review.question(uid, request, version, shown, dry_run=dry_run)
        try:
            variables = {"request": asked["request"], "object": shown[0], "oldObject": shown[1]}
            if hook.match_conditions and not await aside(review.met, hook.match_conditions, variables, always=True):
                return None
            client = hook.client_config
            if client is None:
                raise CallError("it has no clientConfig")
            if why := self.circuits.rest(where):
                raise CallError(why)
            body = await self._answer(where, client, asked, float(hook.timeout_seconds or 10))
            weigh(len(body))
            answer = await aside(partial(review.read, body, uid, may_change=changing))
        except (CallError, review.ConditionError, review.BadAnswer) as error:
            if hook.failure_policy == "Ignore":
                _log.warning("a webhook did not answer and is passed over", webhook=hook.name, error=str(error))
                return None
            raise _failed(hook, str(error)) from None
        if not answer.allowed:
            raise review.refusal(hook.name, answer.status)
        return answer

    async def _answer(self, where: str, client: WebhookClientConfig, asked: dict[str, Any], seconds: float) -> bytes:
        try:
            body = await self.caller.post(client, asked, seconds, self._objects)
        except NoAnswer:
            self.circuits.failed(where)
            raise
        except CallError:
            self.circuits.answered(where)
            raise
        self.circuits.answered(where)
        return body

    def _matching(self, request: Request, *, changing: bool) -> Iterator[tuple[ValidatingWebhook, str]]:
        hooks = self._hooks(MUTATING_WEBHOOKS if changing else VALIDATING_WEBHOOKS)
        if not hooks or review.exempt(request.kind):
            return
        target = self._target(request)
        for hook in hooks:
            version = review.version_for(hook, target)
            if version is not None:
                yield hook, version

    def _hooks(self, kind: Kind[Any]) -> list[ValidatingWebhook]:
        """The webhooks of all configurations of a kind, by their name and then in their order.

        Those of Volcano's own admission are not asked: their rules are checked here.
        """
        hooks = self._known.get(kind.resource)
        if hooks is None:
            entries = sorted(self._store.scan(kind.resource), key=lambda entry: entry.name)
            every = (hook for entry in entries for hook in encoding.read(kind, entry.data).webhooks or ())
            hooks = [hook for hook in every if not does_our_work(hook)]
            self._known[kind.resource] = hooks
        return hooks

    def _on_event(self, event: Event) -> None:
        if self._known.pop(event.entry.resource, None) is not None:
            self.circuits.clear()

    def _target(self, request: Request) -> review.ReviewTarget:
        kind, old = request.kind, request.old
        labels: review.Labels = None
        if kind.resource == NAMESPACES.resource:
            labels = review.labels(request.object)
        elif kind.namespaced:
            namespace = self._objects.find(NAMESPACES, request.namespace or "")
            labels = (namespace.metadata.labels if namespace else None) or {}
        return review.ReviewTarget(
            kind,
            request.operation,
            request.subresource,
            (kind.version, *kind.alias_versions),
            review.labels(request.object),
            None if old is None else review.labels(old),
            labels,
        )


def _patched(present: dict[str, Any], patch: list[Any]) -> tuple[Any, bool]:
    """The patched object, and whether it is as before."""
    changed = apply_json_patch(present, patch)
    return changed, same(changed, present)


def _failed(hook: ValidatingWebhook, why: str) -> ApiError:
    text = f'Internal error occurred: failed calling webhook "{hook.name}": failed to call webhook: {why}'
    return ApiError(text, code=500, reason="InternalError")
