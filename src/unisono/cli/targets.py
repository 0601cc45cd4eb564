"""What users name on the command line: ``KIND NAME...``, ``KIND/NAME`` and ``-f FILE``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unisono.errors import UnisonoError
from unisono.kube.discovery import Resource, ResourceMap

if TYPE_CHECKING:
    from unisono.api.core import Pod
    from unisono.api.kind import Kind
    from unisono.kube.http import HttpClient
    from unisono.sdk.follow.log_lines import LogSelection


# Objects of the kinds that a server tells of, as the structs of this project.


def object_of(resource: Resource, item: dict[str, Any]) -> tuple[Kind[Any] | None, Any]:
    """An object as a struct, with its kind in the version that was asked for.

    Of kinds that are not known here the metadata are read, and the kind is None.
    """
    import msgspec

    from unisono.api.base import Object, ObjectMeta
    from unisono.api.decode import decode
    from unisono.sdk.jobs.submission import kind_of

    kind = kind_of({"apiVersion": resource.api_version, "kind": resource.kind})
    if kind is None:
        return None, Object(metadata=msgspec.convert(item.get("metadata") or {}, ObjectMeta))
    return kind, decode(kind, item).obj


class BadTarget(UnisonoError):
    """The words on the command line name no object."""


@dataclass(frozen=True, slots=True)
class Target:
    """One named object, or all of a kind where ``name`` is None."""

    resource: Resource
    name: str | None


def parse(words: Sequence[str], resources: ResourceMap) -> list[Target]:
    """``job/a pod/b``, ``job a b``, ``jobs,pods`` or ``all``.

    Raises:
        BadTarget: the words mix the two forms or are empty.
        UnknownKind: the server has no such kind.
    """
    if not words:
        raise BadTarget("Name what you mean: a kind (job), a kind and a name (job hello), or KIND/NAME (job/hello).")
    if any("/" in word for word in words):
        return [_slashed(word, resources) for word in words]
    kinds = _kinds(words[0], resources)
    names = words[1:]
    if not names:
        return [Target(resource, None) for resource in kinds]
    if len(kinds) != 1:
        raise BadTarget(
            f"Names need one kind, and '{words[0]}' stands for {len(kinds)}: give KIND/NAME for each object."
        )
    return [Target(kinds[0], name) for name in names]


def one(words: Sequence[str], resources: ResourceMap) -> Target:
    """Exactly one named object; a name alone, which no kind has, is a job's.

    Raises:
        BadTarget: none or several are named, or a kind alone.
        UnknownKind: the server has no such kind.
    """
    if len(words) == 1 and "/" not in words[0] and not resources.has(words[0]):
        return _slashed(f"job/{words[0]}", resources)
    targets = parse(words, resources)
    if len(targets) != 1 or targets[0].name is None:
        raise BadTarget("Name one object, such as job/hello.")
    return targets[0]


async def meant(
    client: HttpClient, resources: ResourceMap, namespace: str, name: str, first: Sequence[str] = ("job",)
) -> str:
    """``KIND/NAME`` of a name alone: the first kind that has it, of these and then of all kinds of jobs.

    Raises:
        BadTarget: there is none; names those that are called nearly so.
    """
    from unisono.api.kinds import JOBS, PODS
    from unisono.cli.connection import begun, hint, whereabouts
    from unisono.errors import ApiError, NotFound
    from unisono.jobkinds.registry import JOB_KINDS
    from unisono.kube.discovery import request_json

    kinds = [*first, *(each.resource for each in JOB_KINDS if each.resource not in first and each.kind != "Job")]
    for kind in (*kinds, "job.batch"):
        if not resources.has(kind):
            continue
        resource = resources.named(kind)
        try:
            await request_json(client, "GET", resource.path(namespace, name))
        except (NotFound, ApiError):
            continue
        return f"{resources.typed(resource)}/{name}"
    listing = await request_json(client, "GET", resources.named("job").path(namespace))
    names = [item["metadata"]["name"] for item in listing.get("items") or []]
    suggestion = hint(JOBS, name, names)
    suggestion = suggestion or await whereabouts(client, name, namespace, (JOBS, PODS) if "pod" in first else (JOBS,))
    suggestion = suggestion or begun(JOBS, name, names) or ": 'unisono status' shows those that there are"
    raise BadTarget(
        f"no {' and no '.join(dict.fromkeys((*first, 'job')))} of the name {name} is in {namespace}{suggestion}"
    )


def _slashed(word: str, resources: ResourceMap) -> Target:
    kind, _, name = word.partition("/")
    if not kind or not name or "/" in name:
        raise BadTarget(f"'{word}' is not of the form KIND/NAME; kinds and names cannot be mixed with it.")
    return Target(resources.named(kind), name)


def _kinds(word: str, resources: ResourceMap) -> list[Resource]:
    kinds: list[Resource] = []
    for name in word.split(","):
        kinds += resources.in_category(name) if name == "all" else [resources.named(name)]
    return kinds


# Which pods ``unisono logs KIND/NAME`` reads, and what it says where none has a log.


async def pods_with_logs(
    client: HttpClient, resource: Resource, owner: Any, title: str, wanted: LogSelection
) -> Sequence[Pod]:
    """The pods of an object whose logs are meant.

    Raises:
        BadTarget: there is none; says what to look at instead.
    """
    from unisono.jobkinds.registry import OWNERS
    from unisono.sdk.state.dependents import dependents

    pods = (await dependents(client, resource.name, owner)).pods
    if not pods and resource.name not in {kind.resource for kind in OWNERS}:
        raise BadTarget(f"{title} has no pods, and so no logs: name a pod, or an object that has pods.")
    if not pods and (elsewhere := in_member(owner, resource.kind)):
        raise BadTarget(f"{title} {elsewhere}")
    if problem := lacking(pods, title, wanted):
        raise BadTarget(problem)
    return [pod for pod in pods if wanted.is_ready(pod)]


def in_member(owner: Any, kind: str) -> str:
    """Where its logs are, of an object that a hub has sent to a member; empty for others."""
    from unisono.api.annotations import CLUSTER

    cluster = (owner.metadata.annotations or {}).get(CLUSTER)
    name = owner.metadata.name if kind == "Job" else f"{kind.lower()}/{owner.metadata.name}"
    return f"runs in cluster {cluster}: 'unisono fleet logs {name}' prints its logs." if cluster else ""


def lacking(pods: Sequence[Pod], title: str, wanted: LogSelection) -> str:
    """Why there is no line to be had of these pods; empty where there may be one."""
    from unisono.sdk.follow.log_lines import STARTED_PHASES, container_names

    if not pods:
        return f"{title} has no pods now: 'unisono explain {title}' says why."
    if all(pod.status.phase not in STARTED_PHASES for pod in pods):
        number = f"{len(pods)} pods, and none has" if len(pods) > 1 else "one pod, which has not"
        return f"{title} has {number} started: 'unisono explain {title}' says why, and --follow waits for them."
    names = container_names(pods)
    if wanted.container and wanted.container not in names:
        return f"no pod of {title} has a container {wanted.container!r}: their containers are {', '.join(names)}."
    return ""
