"""Makes the claims of pods that name a ResourceClaimTemplate, and tells the pod their names.

On a cluster kube-controller-manager does this.
"""

from __future__ import annotations

import msgspec

from unisono.api.core import Pod, PodResourceClaim, PodResourceClaimStatus, ResourceClaim, ResourceClaimTemplate
from unisono.api.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from unisono.controllers.claims.decide import (
    MOST_USERS,
    claim_from,
    claim_keys,
    is_done,
    made_for,
    needs_claims,
    recorded,
    template_keys,
    uses,
)
from unisono.controllers.indexing import index
from unisono.controllers.notices import Announcer, Notice
from unisono.controllers.owners import controller_keys, controller_uids, family
from unisono.controllers.recorder import Recorder
from unisono.errors import ApiError, Conflict, NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

CLAIM_INDEX = "pods-of-resource-claim"
OWNER_INDEX = "controller-uid"
_TEMPLATE_INDEX = "pods-of-claim-template"
_RETRY_SECONDS = 5.0


class PodClaimController(Controller):
    """Makes claims for pods, and reserves claims for pods that came to their node without the scheduler."""

    name = "pod-resource-claim-controller"

    def __init__(self, recorder: Recorder) -> None:
        self._announcer = Announcer(recorder)
        # By pod and entry: claims that were made a moment ago, which the cache may not show yet.
        self._made: dict[tuple[str, str], ResourceClaim] = {}

    def setup(self, context: Context) -> None:
        """Watch pods with claims, templates that they wait for, and claims that go while their pod is there."""
        self._client = context.client
        self._pods = context.watch(PODS, when=_concerns)
        self._announcer.forget_deleted(self._pods)
        index(self._pods, CLAIM_INDEX, claim_keys)
        index(self._pods, _TEMPLATE_INDEX, template_keys)
        self._templates = context.watch(RESOURCE_CLAIM_TEMPLATES, self._waiting, when=_comes)
        self._claims = context.watch(RESOURCE_CLAIMS, self._users)
        index(self._claims, OWNER_INDEX, controller_keys)

    async def reconcile(self, key: str) -> float | None:
        """Make what is missing."""
        pod = self._pods.get(key)
        # A pod that has ended gets no new claims: those that were made for it go.
        if pod is None or pod.metadata.deletion_timestamp or is_done(pod) or not needs_claims(pod):
            return None
        names, again = recorded(pod), None
        before = dict(names)
        for wanted in pod.spec.resource_claims or ():
            if wanted.resource_claim_template_name is None:
                continue
            try:
                names[wanted.name] = await self._claim_of(pod, wanted, before)
            except _NoTemplate as error:
                text = f'PodResourceClaim {wanted.name}: resource claim template "{error}" not found'
                self._announcer.tell(pod, [Notice("Warning", "FailedResourceClaimCreation", text, once=text)])
            except NotFound:
                return None
            except Conflict:
                raise
            except ApiError as error:
                text = f"PodResourceClaim {wanted.name}: create ResourceClaim: {error}"
                self._announcer.tell(pod, [Notice("Warning", "FailedResourceClaimCreation", text, once=text)])
                again = _RETRY_SECONDS
        try:
            if names != before:
                pod = await self._tell(pod, names)
            if pod.spec.node_name:
                await self._reserve(pod)
        except NotFound:
            return None
        return again

    async def _claim_of(self, pod: Pod, wanted: PodResourceClaim, names: dict[str, str | None]) -> str | None:
        """Name of the claim of one entry, made unless it is there; None when none is needed."""
        uid, namespace = pod.metadata.uid or "", pod.metadata.namespace
        if wanted.name in names:
            name = names[wanted.name]
            if name is None:
                return None
            known = self._claims.get(f"{namespace}/{name}")
            if known is not None and uid in controller_uids(known):
                self._made.pop((uid, wanted.name), None)
                return name
        found = made_for(pod, wanted, self._claims.by_index(OWNER_INDEX, family(pod))) or await self._fresh(uid, wanted)
        if found is None:
            template = self._templates.get(f"{namespace}/{wanted.resource_claim_template_name}")
            if template is None:
                raise _NoTemplate(wanted.resource_claim_template_name)
            found = await self._client.create(RESOURCE_CLAIMS, claim_from(template, pod, wanted))
            self._made[uid, wanted.name] = found
        return found.metadata.name

    async def _fresh(self, uid: str, wanted: PodResourceClaim) -> ResourceClaim | None:
        """A claim that was made here before the cache showed it; one that has gone again does not count."""
        made = self._made.pop((uid, wanted.name), None)
        if made is None:
            return None
        try:
            found = await self._client.get(RESOURCE_CLAIMS, made.metadata.name, made.metadata.namespace)
        except NotFound:
            return None
        return found if found.metadata.uid == made.metadata.uid and not found.metadata.deletion_timestamp else None

    async def _tell(self, pod: Pod, names: dict[str, str | None]) -> Pod:
        meta = pod.metadata
        statuses = [PodResourceClaimStatus(name=entry, resource_claim_name=name) for entry, name in names.items()]
        patch = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {"resourceClaimStatuses": msgspec.to_builtins(statuses)},
        }
        return await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")

    async def _reserve(self, pod: Pod) -> None:
        """The scheduler reserves claims for its pods; this is for pods that it never saw."""
        for key in claim_keys(pod):
            claim = self._claims.get(key)
            if claim is None or claim.status.allocation is None or uses(claim, pod):
                continue
            users = claim.status.reserved_for or []
            if len(users) >= MOST_USERS:
                continue
            user = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
            meta = claim.metadata
            patch = {
                "metadata": {"resourceVersion": meta.resource_version},
                "status": {"reservedFor": [*msgspec.to_builtins(users), user]},
            }
            await self._client.patch(RESOURCE_CLAIMS, meta.name, patch, namespace=meta.namespace, subresource="status")

    def _waiting(self, template: ResourceClaimTemplate) -> list[str]:
        return [pod.key for pod in self._pods.by_index(_TEMPLATE_INDEX, template.key)]

    def _users(self, claim: ResourceClaim) -> list[str]:
        return [pod.key for pod in self._pods.by_index(CLAIM_INDEX, claim.key)]


class _NoTemplate(Exception):
    """The template does not exist yet."""


def _concerns(event_type: EventType, new: Pod, old: Pod | None) -> bool:
    if event_type == "DELETED" or not needs_claims(new):
        return False
    return old is None or (old.spec.node_name, recorded(old)) != (new.spec.node_name, recorded(new))


def _comes(event_type: EventType, new: ResourceClaimTemplate, old: ResourceClaimTemplate | None) -> bool:
    return event_type == "ADDED"
