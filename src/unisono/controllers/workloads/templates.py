"""Templates of pods: the pod that one makes, its hash, and whether it may run on a node."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from unisono.api import core, keys, names
from unisono.api.base import IntOrString, Object, ObjectMeta
from unisono.api.groups.apps import ControllerRevision, DaemonSet, StatefulSet
from unisono.api.kind import Kind
from unisono.api.kind_families import CONTROLLER_REVISIONS
from unisono.controllers.objects import to_json
from unisono.controllers.owners import owned_by, whole_number
from unisono.controllers.pod_facts import created, has_failed, has_started
from unisono.controllers.workloads.dependents import Dependents, raise_first
from unisono.kube.client import Client

# Templates of pods: the pod that one makes, its hash, and the revisions that keep old ones (pure).


# From templates to pods: short names of templates, and numbers or percentages of replicas.

# Numbers or percentages of replicas.


def amount(value: IntOrString | None, total: int, *, up: bool) -> int:
    """``value``, or that percentage of ``total`` rounded up or down; 0 where it is nothing readable."""
    if isinstance(value, int):
        return value
    percent = whole_number(value[:-1]) if value is not None and value.endswith("%") else None
    if percent is None:
        return 0
    share = percent * total / 100
    return math.ceil(share) if up else math.floor(share)


# From templates to pods, and the short names of templates.

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_BASE = 58


def short_hash(value: Any, salt: int | None = None) -> str:
    """Up to ten letters and digits that stand for a value, equal for equal values on every machine.

    Args:
        value: a struct, or JSON values.
        salt: number of collisions seen so far; changes the answer.
    """
    digest = hashlib.blake2b(msgspec.json.encode(value, order="sorted"), digest_size=8)
    if salt:
        digest.update(str(salt).encode())
    number, text = int.from_bytes(digest.digest()[:6], "big"), ""
    for _ in range(10):
        number, rest = divmod(number, len(_ALPHABET))
        text += _ALPHABET[rest]
    return text


def generated_name(owner: str, source: random.Random) -> str:
    """A new name for something that ``owner`` makes."""
    suffix = "".join(source.choices(_ALPHABET, k=5))
    return f"{f'{owner}-'[:_LONGEST_BASE]}{suffix}"


def pod_from(
    template: core.PodTemplateSpec,
    kind: Kind[Any],
    owner: Object,
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizers: list[str] | None = None,
) -> core.Pod:
    """A pod of the owner's namespace, which goes when the owner goes.

    Its spec may get other fields. What lies deeper is the template's own and must be replaced, not changed: a copy
    of a large template for each of hundreds of pods would hold up all other objects.

    Args:
        template: the pod's template.
        kind: kind of the owner.
        owner: its controller.
        name: the pod's name.
        labels: labels beside the template's.
        annotations: annotations beside the template's.
        finalizers: finalizers beside the template's.
    """
    meta = template.metadata
    prefix = f"{owner.metadata.name}-"
    return core.Pod(
        metadata=ObjectMeta(
            name=name,
            generate_name=prefix if not names.dns_subdomain(f"{prefix}a") and name.startswith(prefix) else None,
            namespace=owner.metadata.namespace,
            labels={**(meta.labels or {}), **(labels or {})} or None,
            annotations={**(meta.annotations or {}), **(annotations or {})} or None,
            finalizers=[*(meta.finalizers or ()), *(finalizers or ())] or None,
            owner_references=[owned_by(kind, owner)],
        ),
        spec=copy(template.spec),
    )


# The templates that a StatefulSet or DaemonSet had, as ControllerRevisions (pure).

HASH_LABEL = "controller.kubernetes.io/hash"

Owner = StatefulSet | DaemonSet


def revision_of(pod: core.Pod) -> str:
    """Name, or hash, of the revision that the pod was made from."""
    return (pod.metadata.labels or {}).get(keys.CONTROLLER_REVISION_HASH, "")


@dataclass(slots=True)
class Revisions:
    """What to do about the revisions of an owner.

    Attributes:
        update: the present template's revision.
        create: whether it is to be made.
        renumber: its new number when an old template is in use again, else 0.
        delete: revisions beyond the history limit that no pod has.
    """

    update: ControllerRevision
    create: bool = False
    renumber: int = 0
    delete: list[ControllerRevision] = field(default_factory=list)


def revise(kind: Kind[Any], owner: Owner, revisions: Sequence[ControllerRevision], used: set[str]) -> Revisions:
    """Find the revision of the present template, or make it.

    Args:
        kind: kind of the owner.
        owner: the owner.
        revisions: its revisions.
        used: names of revisions that pods have, or that the status names.
    """
    data = _data(owner.spec.template)
    ordered = sorted(revisions, key=lambda each: (each.revision, each.metadata.name))
    latest = ordered[-1].revision if ordered else 0
    same = next((each for each in reversed(ordered) if each.data == data), None)
    if same is not None:
        revised = Revisions(same, renumber=latest + 1 if same.revision < latest else 0)
    else:
        revised = Revisions(_revision(kind, owner, data, latest + 1), create=True)
    idle = [each for each in ordered if each is not same and each.metadata.name not in used]
    limit = owner.spec.revision_history_limit
    if limit is not None and len(idle) > limit:
        revised.delete = idle[: len(idle) - limit]
    return revised


def template_of(revision: ControllerRevision, fallback: core.PodTemplateSpec) -> core.PodTemplateSpec:
    """The template that a revision holds; ``fallback`` where it holds none that can be read."""
    spec = (revision.data or {}).get("spec")
    template = dict((spec or {}).get("template") or {}) if isinstance(spec, dict) else {}
    template.pop("$patch", None)
    try:
        return msgspec.convert(template, core.PodTemplateSpec) if template else fallback
    except msgspec.ValidationError:
        return fallback


def _data(template: core.PodTemplateSpec) -> dict[str, Any]:
    """As Kubernetes keeps it, so that ``kubectl rollout undo`` can apply it as a strategic merge patch."""
    return {"spec": {"template": {**to_json(template), "$patch": "replace"}}}


def _revision(kind: Kind[Any], owner: Owner, data: dict[str, Any], number: int) -> ControllerRevision:
    mark = short_hash(data, owner.status.collision_count)
    meta = owner.metadata
    notes = {k: v for k, v in (meta.annotations or {}).items() if k.startswith("kubernetes.io/change-cause")}
    return ControllerRevision(
        metadata=ObjectMeta(
            name=f"{meta.name}-{mark}",
            namespace=meta.namespace,
            labels={**(owner.spec.template.metadata.labels or {}), HASH_LABEL: mark},
            annotations=notes or None,
            owner_references=[owned_by(kind, owner)],
        ),
        data=data,
        revision=number,
    )


# Revisions of StatefulSets and DaemonSets on the server.

O = TypeVar("O", StatefulSet, DaemonSet)  # noqa: E741


async def bring_to_server(
    client: Client, dependents: Dependents[O, ControllerRevision], owner: O, revised: Revisions
) -> None:
    """Make or renumber the present template's revision, and delete those that are not needed.

    Raises:
        ApiError: the server refuses; the next look tries again.
    """
    if revised.create:
        raise_first(await dependents.create(owner, [revised.update]))
    elif revised.renumber:
        meta = revised.update.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "revision": revised.renumber}
        await client.patch(CONTROLLER_REVISIONS, meta.name, patch, namespace=meta.namespace)
    raise_first(await dependents.delete(owner, revised.delete))


# Whether a template may run on a node, as far as labels, names and taints tell (pure).


def fits(spec: core.PodSpec, node: core.Node) -> bool:
    """Whether node selector and required node affinity of the pod allow the node."""
    labels = node.metadata.labels or {}
    if any(labels.get(key) != value for key, value in (spec.node_selector or {}).items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required is None or allows(required, node.metadata.name, labels)


def allows(required: core.NodeSelector, name: str, labels: Mapping[str, str]) -> bool:
    """Whether required node affinity allows a node of that name with these labels."""
    return any(_term_fits(term, name, labels) for term in required.node_selector_terms or ())


def tolerates(tolerations: Sequence[core.Toleration], taint: core.Taint) -> bool:
    """Whether one of the tolerations covers the taint."""
    return any(covers(each, taint) for each in tolerations)


def covers(toleration: core.Toleration | core.DeviceToleration, taint: core.Taint | core.DeviceTaint) -> bool:
    """Whether the toleration covers the taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and (toleration.value or "") == (taint.value or "")


def blocking(spec: core.PodSpec, node: core.Node, effects: tuple[str, ...]) -> list[core.Taint]:
    """Taints of the node with one of these effects that the pod does not tolerate."""
    taints = [taint for taint in node.spec.taints or () if taint.effect in effects]
    return [taint for taint in taints if not tolerates(spec.tolerations or (), taint)]


def _term_fits(term: core.NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": name}
    return all(_holds(each, labels.get(each.key)) for each in term.match_expressions or ()) and all(
        _holds(each, fields.get(each.key)) for each in term.match_fields or ()
    )


def _holds(requirement: core.NodeSelectorRequirement, value: str | None) -> bool:
    values = requirement.values or []
    match requirement.operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            if value is None or len(values) != 1:
                return False
            try:
                left, right = int(value), int(values[0])
            except ValueError:
                return False
            return left > right if requirement.operator == "Gt" else left < right
        case _:
            return False


# Pods that their node refused: the longer a node keeps refusing, the longer their successors wait (pure).

# The second try after a refusal waits so long, each further one twice as long as the one before.
FIRST_SECONDS = 1.0
LONGEST_SECONDS = 300.0
# A refused pod whose successor has the same name keeps that name for so long.
NAMED_SECONDS = 10.0


def was_refused(pod: core.Pod) -> bool:
    """Whether the pod failed before any of its containers began: its node had no room for it, or not its labels."""
    return has_failed(pod) and not has_started(pod)


def refused_for(pod: core.Pod, now: float) -> float:
    """Seconds until a refused pod makes room for its successor of the same name; 0 for any other pod."""
    return max(0.0, created(pod) + NAMED_SECONDS - now) if was_refused(pod) else 0.0


def refusal_wait(pods: Sequence[core.Pod], missing: int, now: float) -> float:
    """Seconds until pods are made in the place of refused ones; 0 where that is now.

    The first is made at once: most refusals come from a scheduler that did not know yet how full the node was. The pods
    themselves are the memory, so that a restart of the controller starts no new rush.

    Args:
        pods: the pods of a workload whose names are drawn, failed ones too.
        missing: how many are to be made.
        now: seconds since 1970.
    """
    accepted = max((created(pod) for pod in pods if has_started(pod)), default=0.0)
    refused = [created(pod) for pod in pods if was_refused(pod) and created(pod) >= accepted]
    rounds = math.ceil(len(refused) / missing) if missing > 0 else 0
    if rounds < 2:
        return 0.0
    delay = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(rounds - 2, 16))
    return max(0.0, max(refused) + delay - now)
