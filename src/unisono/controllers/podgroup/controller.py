"""Gives plain pods of our schedulers, and those of ReplicaSets, StatefulSets and batch Jobs, their pod groups."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import msgspec

from unisono.api import annotations as submitters
from unisono.api.base import Object
from unisono.api.core import Pod
from unisono.api.groups.apps import ReplicaSet, StatefulSet
from unisono.api.groups.batch_v1 import BatchJob
from unisono.api.groups.scheduling import PodGroup
from unisono.api.keys import GROUP_NAME, POD_QUEUE
from unisono.api.kind import Kind
from unisono.api.kinds import NAMESPACES, POD_GROUPS, PODS, find
from unisono.api.selecting import controller_of, pod_group_of
from unisono.controllers import owners
from unisono.controllers.objects import contains, delete_seen, to_json
from unisono.controllers.owners import index
from unisono.controllers.pod_groups import waits_suspended
from unisono.controllers.podgroup import decide
from unisono.controllers.recorder import Announcer, Notice, Recorder
from unisono.controllers.workloads.job_decide import finished
from unisono.errors import AlreadyExists, ApiError, Conflict, NotFound, Unavailable
from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.kueue import queue_of_label
from unisono.jobkinds.registry import FROM_TEMPLATES
from unisono.jobkinds.registry import known as known_kinds
from unisono.kube.client import Client
from unisono.kube.controller import Context, Controller
from unisono.kube.defined_kinds import DefinedKinds

SCHEDULER_NAMES = ("volcano", "unisono")
# Reason of the event and the condition of a pod whose PodGroup is refused.
FAILED = "FailedCreatePodGroup"
# Seconds until a group that is being deleted is looked at again.
_DELETION_RETRY = 1.0
# Reason of the event on a definition whose table of jobs cannot be used.
UNUSABLE = "UnusableJobKind"
# Controllers whose pods' group is remembered.
_MOST_NAMES = 10_000
# Owners of owners that are asked for: people nest fewer.
_MOST_OWNERS = 5


class PodGroupController(Controller):
    """Makes ``podgroup-<uid>`` and writes its name on the pod."""

    name = "pg-controller"

    def __init__(
        self, recorder: Recorder, scheduler_names: Collection[str] = SCHEDULER_NAMES, *, all_reviewed: bool = False
    ) -> None:
        """Make one.

        Args:
            recorder: records events.
            scheduler_names: only pods whose ``schedulerName`` is one of these are looked at.
            all_reviewed: the API server says of objects of every kind which queues their authors may use; else of those
                that this version knows, and not of those that a definition on the cluster describes.
        """
        self._announcer, self._recorder = Announcer(recorder), recorder
        self._all_reviewed = all_reviewed
        self._names: dict[str, str] = {}
        self._scheduler_names = frozenset(scheduler_names)

    def setup(self, context: Context) -> None:
        """Watch pods without a group."""
        self._defined = DefinedKinds(
            context.client,
            context.clock,
            lambda definition, why: self._recorder.event(definition, "Warning", UNUSABLE, why),
        )
        self._pods = context.watch(PODS, when=lambda _event, pod, _old: decide.needs_group(pod, self._scheduler_names))
        self._announcer.forget_deleted(self._pods)
        self._groups = context.informer(POD_GROUPS)
        self._namespaces = context.informer(NAMESPACES)

    async def reconcile(self, key: str) -> float | None:
        """Make the group if it is not there, then name it on the pod."""
        pod = self._pods.get(key)
        if pod is None or not decide.needs_group(pod, self._scheduler_names):
            return None
        meta, owner = pod.metadata, controller_of(pod)
        name = self._names.get(owner.uid if owner else "", decide.group_name(pod))
        group = self._groups.get(f"{meta.namespace}/{name}")
        if group is None:
            chain = await self._owners(pod)
            whole = await self._whole(pod, chain)
            if whole is not None and owner is not None:
                name = self._names[owner.uid] = decide.whole_name(whole[1])
                if len(self._names) > _MOST_NAMES:
                    self._names.pop(next(iter(self._names)))
                group = self._groups.get(f"{meta.namespace}/{name}")
            if group is None:
                await self._create(pod, chain, whole)
        if group is not None and group.metadata.deletion_timestamp:
            return _DELETION_RETRY
        # With the uid a pod that took over the name is not given the group of its predecessor.
        patch = {"metadata": {"uid": meta.uid, "annotations": {GROUP_NAME: name}}}
        try:
            await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace)
        except NotFound:
            return None
        return None

    async def _create(self, pod: Pod, chain: list[Object], whole: tuple[JobKind, Object] | None) -> PodGroup | None:
        namespace = self._namespaces.get(pod.metadata.namespace or "")
        notes = (namespace.metadata.annotations or {}) if namespace else {}
        queue = queue_of_label((pod, *chain), notes) or notes.get(POD_QUEUE, "")
        handed = decide.handed_down(chain[0]) if chain and chain[0].kind in FROM_TEMPLATES else {}
        outermost = chain[-1] if chain else pod
        author = author_of(outermost, all_reviewed=self._all_reviewed)
        group = decide.pod_group_for(pod, handed, queue, author)
        if whole is not None:
            group = decide.group_of_all(group, pod, *whole)
        try:
            return await self._client.create(POD_GROUPS, group)
        except AlreadyExists:
            # Its name holds the owner's uid, so it was made for this very owner.
            return None
        except (Conflict, Unavailable):
            raise
        except ApiError as error:
            await self._tell(pod, str(error))
            raise

    async def _whole(self, pod: Pod, chain: list[Object]) -> tuple[JobKind, Object] | None:
        """The outermost owner all of whose pods are in one group, and its kind; None where none is."""
        if decide.is_of_leader_worker_set(pod):
            return None
        for owner in reversed(chain):
            kind = await self._defined.of_kind(owner.api_version or "", owner.kind or "")
            if kind is not None and kind.one_group:
                return kind, owner
        return None

    async def _tell(self, pod: Pod, why: str) -> None:
        """Say on the pod that its PodGroup was refused: without one no scheduler looks at the pod."""
        self._announcer.tell(pod, [Notice("Warning", FAILED, f"Error creating the pod's PodGroup: {why}", once=why)])
        conditions = decide.not_scheduled(pod, FAILED, f"The pod's PodGroup was refused: {why}", self._clock.time())
        if conditions is None:
            return
        meta = pod.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": {"conditions": conditions}}
        with contextlib.suppress(Conflict, NotFound):
            await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")

    async def _owners(self, pod: Pod) -> list[Object]:
        """The pod's controller, that one's, and so on, as far as they are of kinds that this version knows."""
        return await owners_above(self._client, pod, self._kind_of)

    async def _kind_of(self, api_version: str, kind: str) -> Kind[Any] | None:
        described = await self._defined.of_kind(api_version, kind)
        return described.kind if described is not None else None


def author_of(outermost: Object, *, all_reviewed: bool = False) -> dict[str, str]:
    """What admission has written of the author of an object that nobody else has made.

    Who is behind an owner that is not known here, or of a kind that no admission of ours looks at, is not known: its
    author may have written these annotations.

    Args:
        outermost: the object, or its outermost owner.
        all_reviewed: see `PodGroupController`.
    """
    if controller_of(outermost) is not None:
        return {}
    api_version, kind = outermost.api_version or "", outermost.kind or ""
    described = all_reviewed and find(api_version, kind) is None
    if not described and known_kinds().of_kind(api_version, kind) is None:
        return {}
    return submitters.handed_down(outermost.metadata.annotations, None)


async def owners_above(
    client: Client, obj: Object, defined: Callable[[str, str], Awaitable[Kind[Any] | None]] | None = None
) -> list[Object]:
    """The controller of an object, that one's, and so on, as far as their kinds are known.

    A reference is only what its author wrote: it counts where the object has the uid that it gives.

    Args:
        client: finds them.
        obj: the object.
        defined: kinds beside those that this version knows.
    """
    chain: list[Object] = []
    at = obj
    while (owner := controller_of(at)) is not None and len(chain) < _MOST_OWNERS:
        kind = find(owner.api_version, owner.kind)
        if kind is None and defined is not None:
            kind = await defined(owner.api_version, owner.kind)
        if kind is None:
            break
        try:
            at = await client.get(kind, owner.name, obj.metadata.namespace)
        except ApiError as error:
            if error.code not in (403, 404):
                raise
            break
        if at.metadata.uid != owner.uid:
            break
        chain.append(at)
    return chain


# Keeps the pod groups of ReplicaSets, StatefulSets and Kubernetes' Jobs in step with them.
#
# A group is made when the first pod comes. What its owner says about it may change later, and an owner that wants no
# pods needs no group: one that stays would hold its place in the queue, and seem to wait.

Workload = ReplicaSet | StatefulSet | BatchJob
_OWNER_INDEX = "controller-uid"
# What a change of the owner changes; the rest of the spec is the user's.
_FOLLOWED = ("minMember", "minResources")
# Seconds until pods that are being deleted are looked for again.
_LEAVING_RETRY = 2.0


class WorkloadGroupController(Controller):
    """Keeps ``podgroup-<uid>`` of the owners of one kind."""

    def __init__(
        self, kind: Kind[ReplicaSet] | Kind[StatefulSet] | Kind[BatchJob], scheduler_names: Collection[str]
    ) -> None:
        """Only owners of pods whose ``schedulerName`` is one of these are looked at."""
        self._kind: Kind[Workload] = kind  # type: ignore[assignment]
        self._scheduler_names = frozenset(scheduler_names)
        self.name = f"pg-{kind.singular_name}-controller"

    def setup(self, context: Context) -> None:
        """Watch the owners."""
        self._owners = context.watch(self._kind, optional=True)
        self._pods = context.informer(PODS)
        index(self._pods, _OWNER_INDEX, owners.controller_keys)
        self._groups = context.informer(POD_GROUPS)
        self._namespaces = context.informer(NAMESPACES)

    async def reconcile(self, key: str) -> float | None:
        """Delete the group of an owner that wants no pods, else bring what the owner says into it."""
        owner = self._owners.get(key)
        if owner is None or owner.metadata.deletion_timestamp:
            return None
        group = self._groups.get(f"{owner.metadata.namespace}/podgroup-{owner.metadata.uid}")
        if group is None or group.metadata.deletion_timestamp:
            return None
        if owner.metadata.uid not in owners.controller_uids(group):
            return None
        pods = self._pods.by_index(_OWNER_INDEX, owners.family(owner))
        if wants_no_pods(owner):
            if waits_suspended(group) and not (isinstance(owner, BatchJob) and finished(owner)):
                return None
            if not pods:
                await delete_seen(self._client, POD_GROUPS, group)
            return _LEAVING_RETRY if pods and all(pod.metadata.deletion_timestamp for pod in pods) else None
        if isinstance(owner, BatchJob):
            return None
        pod = next((each for each in pods if self._is_ours(each, group)), None)
        if pod is not None:
            author = submitters.handed_down(owner.metadata.annotations, None)
            await self._follow(group, decide.pod_group_for(pod, decide.handed_down(owner), self._queue(pod), author))
        return None

    def _is_ours(self, pod: Pod, group: PodGroup) -> bool:
        return pod.spec.scheduler_name in self._scheduler_names and pod_group_of(pod) == group.key

    def _queue(self, pod: Pod) -> str:
        namespace = self._namespaces.get(pod.metadata.namespace or "")
        return (namespace.metadata.annotations or {}).get(POD_QUEUE, "") if namespace else ""

    async def _follow(self, group: PodGroup, wanted: PodGroup) -> None:
        have, want = to_json(group.spec), to_json(wanted.spec)
        # A merge patch keeps what it does not name: amounts that are no more must be named to go.
        stale = dict.fromkeys(set(group.spec.min_resources or {}) - set(wanted.spec.min_resources or {}))
        spec = {name: want[name] for name in _FOLLOWED if name in want and have.get(name) != want[name]}
        if "minResources" in spec:
            spec["minResources"] = {**stale, **spec["minResources"]}
        notes = to_json(msgspec.structs.replace(wanted.metadata, labels=None)).get("annotations") or {}
        metadata = {"annotations": notes} if not contains(group.metadata.annotations or {}, notes) else {}
        if not spec and not metadata:
            return
        patch = {"metadata": {"uid": group.metadata.uid, **metadata}, "spec": spec}
        try:
            await self._client.patch(POD_GROUPS, group.metadata.name, patch, namespace=group.metadata.namespace)
        except NotFound:
            return


def wants_no_pods(owner: Workload) -> bool:
    """Whether an owner has no replicas, is suspended, or has ended (pods that tell of its end may still be there)."""
    if isinstance(owner, BatchJob):
        return bool(owner.spec.suspend) or finished(owner) is not None
    return not owner.spec.replicas
