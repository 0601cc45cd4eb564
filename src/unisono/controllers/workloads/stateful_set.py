"""StatefulSets: numbered pods, each with a name and claims of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from unisono.api import keys
from unisono.api.base import ObjectMeta
from unisono.api.core import PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume
from unisono.api.groups.apps import ControllerRevision, StatefulSet
from unisono.api.kind_families import CONTROLLER_REVISIONS, STATEFUL_SETS
from unisono.api.kinds import PERSISTENT_VOLUME_CLAIMS, PODS
from unisono.controllers import owners
from unisono.controllers.objects import PATIENCE_SECONDS, LastWritten, delete_seen, write_status
from unisono.controllers.owners import owned_by, whole_number
from unisono.controllers.pod_facts import is_deleting
from unisono.controllers.recorder import Recorder
from unisono.controllers.workloads.dependents import Dependents, raise_first
from unisono.controllers.workloads.stateful_decide import StatefulPlan, decide, ordinal, slots, status_of
from unisono.controllers.workloads.templates import bring_to_server, pod_from, revise, revision_of, template_of
from unisono.errors import AlreadyExists, ApiError, NotFound
from unisono.kube.controller import Context, Controller, sooner

INDEX_LABEL = "apps.kubernetes.io/pod-index"


def pod_of(stateful_set: StatefulSet, template: PodTemplateSpec, number: int, revision: str) -> Pod:
    """The pod of a number, with its own name, host name and claims.

    Args:
        stateful_set: its owner.
        template: the template of its revision.
        number: the pod's number.
        revision: name of its revision.
    """
    name = f"{stateful_set.metadata.name}-{number}"
    labels = {keys.STATEFUL_POD_NAME: name, INDEX_LABEL: str(number), keys.CONTROLLER_REVISION_HASH: revision}
    made = pod_from(template, STATEFUL_SETS, stateful_set, name, labels=labels)
    made.metadata.generate_name = f"{stateful_set.metadata.name}-"
    made.spec.hostname = name
    made.spec.subdomain = stateful_set.spec.service_name
    own = {claim.metadata.name: claim for claim in stateful_set.spec.volume_claim_templates or ()}
    volumes = [volume for volume in made.spec.volumes or () if volume.name not in own]
    for claim in own:
        source = PersistentVolumeClaimVolumeSource(claim_name=claim_name(stateful_set, claim, number))
        volumes.append(Volume(name=claim, persistent_volume_claim=source))
    made.spec.volumes = volumes or None
    return made


def claim_name(stateful_set: StatefulSet, template: str, number: int) -> str:
    """``<template>-<set>-<number>``."""
    return f"{template}-{stateful_set.metadata.name}-{number}"


def claims_of(stateful_set: StatefulSet, number: int) -> Iterator[PersistentVolumeClaim]:
    """The claims of the pod of a number; they stay when the pod goes."""
    retention = stateful_set.spec.persistent_volume_claim_retention_policy
    owners = [owned_by(STATEFUL_SETS, stateful_set)] if retention and retention.when_deleted == "Delete" else None
    selector = stateful_set.spec.selector
    for template in stateful_set.spec.volume_claim_templates or ():
        meta = template.metadata
        yield PersistentVolumeClaim(
            metadata=ObjectMeta(
                name=claim_name(stateful_set, meta.name, number),
                namespace=stateful_set.metadata.namespace,
                labels={**(meta.labels or {}), **((selector.match_labels if selector else None) or {})} or None,
                annotations=meta.annotations,
                owner_references=owners,
            ),
            spec=msgspec.structs.replace(template.spec),
        )


class StatefulSetController(Controller):
    """Runs StatefulSets."""

    name = "statefulset-controller"

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._written: LastWritten[StatefulSet] = LastWritten()

    def setup(self, context: Context) -> None:
        """Watch StatefulSets, their pods, revisions and claims."""
        self._sets = context.watch(STATEFUL_SETS)
        self._pods: Dependents[StatefulSet, Pod] = Dependents(
            context, STATEFUL_SETS, PODS, lambda stateful_set: stateful_set.spec.selector
        )
        self._revisions: Dependents[StatefulSet, ControllerRevision] = Dependents(
            context, STATEFUL_SETS, CONTROLLER_REVISIONS, lambda stateful_set: stateful_set.spec.selector
        )
        self._claims = context.informer(PERSISTENT_VOLUME_CLAIMS)

    async def reconcile(self, key: str) -> float | None:
        """Take the next step, then tell how many pods there are."""
        stateful_set = self._written.newest(key, self._sets.get(key))
        if stateful_set is None:
            return None
        pods = [pod for pod in await self._pods.claim(stateful_set) if ordinal(stateful_set, pod) is not None]
        revisions = await self._revisions.claim(stateful_set)
        if not self._revisions.settled(stateful_set):
            return 1.0
        used = {revision_of(pod) for pod in pods} | {stateful_set.status.current_revision or ""}
        revised = revise(STATEFUL_SETS, stateful_set, revisions, used)
        if not stateful_set.metadata.deletion_timestamp:
            await bring_to_server(self._client, self._revisions, stateful_set, revised)
        update = revised.update.metadata.name
        by_name = {each.metadata.name: each for each in (*revisions, revised.update)}
        current = stateful_set.status.current_revision or update
        current = current if current in by_name else update
        now = self._clock.time()
        plan = decide(stateful_set, pods, current, update, now)
        errors: list[Exception] = []
        if self._pods.settled(stateful_set):
            errors = await self._carry_out(stateful_set, plan, by_name)
            if not stateful_set.metadata.deletion_timestamp:
                await self._retire_claims(stateful_set, pods)
        try:
            status = status_of(stateful_set, pods, current, update, now)
            self._written.keep(await write_status(self._client, STATEFUL_SETS, stateful_set, status))
        except NotFound:
            return None
        raise_first(errors)
        return sooner(plan.requeue_after, None if self._pods.settled(stateful_set) else PATIENCE_SECONDS)

    async def _carry_out(
        self, stateful_set: StatefulSet, plan: StatefulPlan, revisions: dict[str, ControllerRevision]
    ) -> list[Exception]:
        fresh, refused = list[Pod](), list[Exception]()
        for number, revision in plan.create:
            refusal = await self._make_claims(stateful_set, number)
            if refusal is not None:
                refused.append(refusal)
                break
            template = template_of(revisions[revision], stateful_set.spec.template)
            fresh.append(pod_of(stateful_set, template, number, revision))
        errors = await self._pods.create(stateful_set, fresh)
        for pod in fresh if not errors else ():
            text = f"create Pod {pod.metadata.name} in StatefulSet {stateful_set.metadata.name} successful"
            self._recorder.event(stateful_set, "Normal", "SuccessfulCreate", text)
        if errors:
            text = f"create Pod in StatefulSet {stateful_set.metadata.name} failed error: {errors[0]}"
            self._recorder.event(stateful_set, "Warning", "FailedCreate", text)
        errors += refused
        errors += await self._pods.delete(stateful_set, plan.delete)
        for pod in plan.delete:
            if not is_deleting(pod):
                text = f"delete Pod {pod.metadata.name} in StatefulSet {stateful_set.metadata.name} successful"
                self._recorder.event(stateful_set, "Normal", "SuccessfulDelete", text)
        return errors

    async def _make_claims(self, stateful_set: StatefulSet, number: int) -> ApiError | None:
        """The claims of one pod; what the server answers where it refuses one."""
        for claim in claims_of(stateful_set, number):
            if self._claims.get(claim.key) is None:
                try:
                    await self._client.create(PERSISTENT_VOLUME_CLAIMS, claim)
                except AlreadyExists:
                    continue
                except ApiError as error:
                    own = stateful_set.metadata.name
                    what = f"create Claim {claim.metadata.name} Pod {own}-{number} in StatefulSet {own} failed"
                    self._recorder.event(stateful_set, "Warning", "FailedCreate", f"{what} error: {error}")
                    return error
        return None

    async def _retire_claims(self, stateful_set: StatefulSet, pods: Sequence[Pod]) -> None:
        """Delete the claims of numbers that are no more, where the set asks for that and their pod has gone."""
        retention = stateful_set.spec.persistent_volume_claim_retention_policy
        templates = stateful_set.spec.volume_claim_templates or []
        if retention is None or retention.when_scaled != "Delete" or not templates:
            return
        ordinals, there = slots(stateful_set), {ordinal(stateful_set, pod) for pod in pods}
        stems = [claim_name(stateful_set, each.metadata.name, 0)[:-1] for each in templates]
        for claim in self._claims.items():
            meta = claim.metadata
            if meta.namespace != stateful_set.metadata.namespace or meta.deletion_timestamp:
                continue
            if not {*owners.controller_uids(claim)} <= {stateful_set.metadata.uid}:
                # It has the name of one of the set's claims, and belongs to something else.
                continue
            for stem in stems:
                number = meta.name.removeprefix(stem)
                if meta.name.startswith(stem) and _is_gone(number, ordinals, there):
                    await delete_seen(self._client, PERSISTENT_VOLUME_CLAIMS, claim)


def _is_gone(text: str, wanted: range, there: set[int | None]) -> bool:
    """Whether this is the number of a pod that neither should be there nor is."""
    number = whole_number(text)
    return number is not None and number not in wanted and number not in there
