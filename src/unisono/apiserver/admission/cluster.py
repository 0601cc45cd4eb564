"""Admission of kinds of the cluster, and of what tenants may do with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from unisono.api import field_error
from unisono.api.annotations import (
    ADMITTED_QUEUES,
    CYCLES_LEASE,
    JOB_KIND,
    TIER,
    USER,
    USER_LIMITS,
    WRITABLE_DIRECTORIES,
)
from unisono.api.bounds import HARD_TOPOLOGY, OF_JOBS, OF_KINDS, OF_QUEUES, in_vain, parts_told
from unisono.api.commands import COMMANDS_OF, target_of
from unisono.api.conditions import is_true
from unisono.api.core import CustomResourceDefinition, Node, Taint
from unisono.api.gang_affinity import WORDS, wishes_of
from unisono.api.groups.admission_registration import does_our_work, hindrance
from unisono.api.groups.batch import Command, Job
from unisono.api.keys import MASTERS, NODE_NOT_READY, POD_QUEUE
from unisono.api.kind_families import (
    APPLICATIONS,
    ATTACHED_CLUSTERS,
    CLUSTER_PROPAGATION_POLICIES,
    FLEETS,
    HYPER_JOBS,
    PROPAGATION_POLICIES,
)
from unisono.api.kinds import (
    CLUSTER_ROLE_BINDINGS,
    COMMANDS,
    CONFIG_MAPS,
    CUSTOM_KINDS,
    CUSTOM_RESOURCE_DEFINITIONS,
    HYPER_NODES,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    QUEUES,
    ROLE_BINDINGS,
    SERVICES,
)
from unisono.api.queues import Rules, admitted_to, limits_of, mistakes, names_users, refusal, rules_of
from unisono.api.selecting import controller_of
from unisono.apiserver.admission.request import Clocked, Request, View
from unisono.apiserver.custom.definitions import (
    NAMED_DEFINITIONS,
    TERMINATING,
    accept_names,
    note_storage,
    set_condition,
)
from unisono.apiserver.custom.kinds import CustomKind, as_job, as_json
from unisono.apiserver.failures import forbidden, invalid, not_found
from unisono.jobkinds.idle_fields import unknown_arguments
from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.kueue import queues_behind, words_read
from unisono.jobkinds.others_configurations import of_others
from unisono.jobkinds.paths import walk
from unisono.jobkinds.tables import described
from unisono.jobkinds.word_places import misplaced, misplaced_elsewhere, unreadable
from unisono.jobkinds.words_without_effect import without_effect

# Tenants: who may use which queue, whose job it is, and the queue of jobs that name none.

_MOST_TIERS: Final = 8
"""Tiers that a warning names."""

MayUse = Callable[[Request, str], bool]
"""Whether roles give the user of a request the verb ``use`` on the queue of a name."""


def queue_of_namespace(request: Request, view: View) -> None:
    """A new job that names no queue goes to the queue that its namespace names; asked before defaults are set."""
    job: Job = request.object
    if request.operation == "CREATE" and not job.spec.queue:
        job.spec.queue = named_by_namespace(request, view)


def named_by_namespace(request: Request, view: View) -> str | None:
    """The queue of a request's namespace, for what names none."""
    namespace = view.find(NAMESPACES, request.namespace or "")
    return (namespace.metadata.annotations or {}).get(POD_QUEUE) if namespace else None


def note_user(request: Request, _: View) -> None:
    """Write down who submits an object; only masters, which the controllers are too, may say otherwise."""
    if not request.user or MASTERS in request.groups:
        return
    old = request.old.metadata.annotations if request.operation == "UPDATE" else None
    _note(request, USER, request.user if request.operation == "CREATE" else (old or {}).get(USER))


def keep_user(request: Request, view: View) -> None:
    """Of what need not say whose it is: authors can only name themselves."""
    if USER in (request.object.metadata.annotations or {}) or request.operation == "UPDATE":
        note_user(request, view)


def note_queues(may_use: MayUse, request: Request, view: View) -> None:
    """Write down which queues for certain users the author may use, of those that the object names or may come to.

    What a component makes of another object is that one's author's, and keeps what was written there.
    """
    if request.operation not in ("CREATE", "UPDATE") or request.subresource:
        return
    kind = as_job(request.kind)
    if kind is None:
        return
    ours = not request.user or MASTERS in request.groups
    if ours and (request.operation == "UPDATE" or controller_of(request.object) is not None):
        return
    queues = _queues_in(view)
    named = _named(kind, request.object, request, view)
    admitted: set[str] = set()
    if request.operation == "UPDATE":
        before = _named(kind, request.old, request, view)
        admitted = {one for one in admitted_to(request.old.metadata.annotations) if one in named or one not in before}
        named -= before
    elif not named and (of_namespace := named_by_namespace(request, view)):
        named = {of_namespace}
    if kind.refers:
        named |= {queue.metadata.name for queue in view.all(QUEUES)}
    admitted |= {
        queue for queue in named if names_users(queue, queues) and not _refusal(queue, queues, may_use, request)
    }
    _note(request, ADMITTED_QUEUES, ",".join(sorted(admitted)))


def _named(kind: JobKind, obj: Any, request: Request, view: View) -> set[str]:
    return {queue for _, queue in _naming(kind, obj, request, view)}


def _naming(
    kind: JobKind, obj: Any, request: Request, view: View, *, all_places: bool = True
) -> Iterator[tuple[str, str]]:
    """Where an object names a queue, and the queue: also behind LocalQueues, where its namespace serves these."""
    shown = as_json(obj)
    yield from kind.named_queues(shown, all_places=all_places)
    space = view.find(NAMESPACES, request.namespace or "") if request.namespace else None
    yield from queues_behind(kind, shown, space.metadata.annotations if space is not None else None)


def _note(request: Request, key: str, wanted: str | None) -> None:
    meta = request.object.metadata
    notes = dict(meta.annotations or {})
    if (notes.pop(key, None) or "") != (wanted or ""):
        meta.annotations = {**notes, key: wanted} if wanted else notes


def check_use(may_use: MayUse, request: Request, view: View) -> None:
    """Refuse an object that names a queue which its author or its namespace may not use, wherever it names it.

    Raises:
        ApiError: 403 naming the queue.

    """
    if request.operation not in ("CREATE", "UPDATE") or request.subresource:
        return
    kind = as_job(request.kind)
    if kind is None:
        return
    # Controllers write on pods in which queue their job is; nothing is led by that.
    anywhere = request.kind is not PODS or controller_of(request.object) is None
    before = _named(kind, request.old, request, view) if request.old is not None else set()
    for path, name in _naming(kind, request.object, request, view, all_places=anywhere):
        if name in before:
            continue
        why = _refusal(name, _queues_in(view), may_use, request)
        if why:
            raise forbidden(request.kind, request.name, f"{path}: {why}")


def _refusal(name: str, queues: Callable[[str], Rules | None], may_use: MayUse, request: Request) -> str:
    user = "" if MASTERS in request.groups else request.user
    return refusal(name, queues, request.namespace or "", user, request.groups, lambda queue: may_use(request, queue))


def _queues_in(view: View) -> Callable[[str], Rules | None]:
    return lambda name: rules_of(view.find(QUEUES, name))


def unheeded(request: Request, view: View) -> list[str]:
    """What to tell the writer of an object: queues named in vain, words of others, what is not read."""
    # What agents write on their nodes is not for people.
    if request.kind is NODES or controller_of(request.object) is not None:
        return []
    kind, shown = as_job(request.kind), as_json(request.object)
    if kind is None:
        warnings = _configures_others(request)
        return [*warnings, *without_effect(shown), *unreadable(shown), *misplaced_elsewhere(request.kind, shown)]
    inside = (*kind.inner, *kind.templates)
    words = without_effect(shown, inside)
    if words and (space := view.find(NAMESPACES, request.namespace or "")) is not None:
        words = without_effect(shown, inside, words_read(kind, space.metadata.annotations))
    warnings = [*_closed(kind, request, view), *kind.unheeded(shown), *words, *unreadable(shown, inside)]
    warnings += _unknown_tiers(kind, shown, view)
    return [*warnings, *misplaced(kind, shown), *unknown_arguments(shown, kind.templates)]


_TERM: Final = "podAffinityTerm.topologyKey"
_TOPOLOGY_KEYS: Final = (
    "topologySpreadConstraints[*].topologyKey",
    *(
        f"affinity.{side}.{when}DuringSchedulingIgnoredDuringExecution[*].{key}"
        for side in ("podAffinity", "podAntiAffinity")
        for when, key in (("required", "topologyKey"), ("preferred", _TERM))
    ),
)


def _unknown_tiers(kind: JobKind, shown: Any, view: View) -> list[str]:
    """Tiers that terms of pods name, or annotations in their place, and of which no HyperNode is."""
    named, told = dict[str, str](), list[str]()
    for above in ("", *(f"{each}." for each in (*kind.inner, *kind.templates))):
        for at, key in chain.from_iterable(walk(shown, f"{above}spec.{path}") for path in _TOPOLOGY_KEYS):
            named.setdefault(str(key), at)
        for at, notes in walk(shown, f"{above}metadata.annotations"):
            for word in WORDS if isinstance(notes, Mapping) else ():  # of kinds that others check, it may be anything
                text = notes.get(word)
                try:
                    wishes = wishes_of(word, text) if isinstance(text, str) else ()
                    named |= {one.key: f"{at}[{word}]" for one in wishes}
                except ValueError as error:  # of kinds that others check
                    told.append(f"{at}[{word}]: its pods will not be placed: {error}")
    asked = {key.removeprefix(TIER): at for key, at in named.items() if key.startswith(TIER)}
    if not asked:
        return told
    tiers: dict[int, set[str]] = {}
    for one in view.all(HYPER_NODES):
        tiers.setdefault(one.spec.tier or 0, set()).update([one.spec.tier_name] if one.spec.tier_name else ())
    there = [name for tier in sorted(tiers) for name in (f"tier-{tier}", *sorted(tiers[tier]))]
    known = f"there are {', '.join(there[:_MOST_TIERS])}" if there else "there are no HyperNodes"
    return told + [
        f'{at}: no HyperNode is of "{name}", so that no node is in such a domain; {known}'
        for name, at in asked.items()
        if name not in there
    ]


def _closed(kind: JobKind, request: Request, view: View) -> Iterator[str]:
    """Queues that an object names where that counts, and that admit nothing."""
    for field, name in dict(_naming(kind, request.object, request, view, all_places=False)).items():
        queue = view.find(QUEUES, name)
        state = queue.status.state if queue is not None else ""
        if state in ("Closed", "Closing"):
            yield f"{field}: queue {name} is not open (state {state}): its pods wait until it is opened"


def unenforced(request: Request, view: View) -> list[str]:
    """Bounds that an object states and that the scheduler's configuration does not keep, as it tells by its Lease."""
    if request.kind is NODES or controller_of(request.object) is not None:
        return []
    stated = dict(_bounds(request))
    lease = view.find(LEASES, CYCLES_LEASE, "kube-system") if stated else None
    parts = parts_told(lease.metadata.annotations) if lease is not None else None
    bounds = OF_QUEUES if request.kind is QUEUES else {**OF_KINDS, **OF_JOBS}
    unenforced_bounds = () if parts is None else in_vain(stated, bounds, parts)
    return [
        f"{stated[word]}: the scheduler's configuration does not enforce it; {what}" for word, what in unenforced_bounds
    ]


def _bounds(request: Request) -> Iterator[tuple[str, str]]:
    """The bounds that an object states, and where."""
    kind, name = as_job(request.kind), request.kind.kind
    if request.kind is QUEUES or kind is not None:
        shown = as_json(request.object)
        for above in ("", *(f"{each}." for each in (*kind.inner, *kind.templates))) if kind is not None else ("",):
            for part in ("labels", "annotations"):
                for at, notes in walk(shown, f"{above}metadata.{part}"):
                    yield from ((key, f"{at}[{key}]") for key in notes if notes[key])
        modes = (str(value) for _, value in walk(shown, "spec.networkTopology.mode"))
        if any(mode.lower() == "hard" for mode in modes):
            yield HARD_TOPOLOGY, "spec.networkTopology"
    elif name in OF_KINDS and (name != "Budget" or request.object.spec.mode == "Soft"):
        yield name, f"kind {name}"


def _configures_others(request: Request) -> list[str]:
    """Configurations of other schedulers."""
    warning = of_others(request.name, request.object.data) if request.kind is CONFIG_MAPS else ""
    return [warning] if warning else []


def check_namespace(request: Request, view: View) -> None:
    """The same where the roles of users are not known: only what the queue says of namespaces.

    Raises:
        ApiError: 403 naming the queue.

    """
    check_use(lambda _request, _queue: True, request, view)


def check_notes(request: Request, _: View) -> None:
    """Annotations of a Queue about tenants can be read.

    Raises:
        Invalid: names the annotation.

    """
    if request.operation == "DELETE" or request.subresource:
        return
    notes = request.object.metadata.annotations or {}
    errors = [field_error.invalid(f"metadata.annotations[{key}]", value, why) for key, value, why in mistakes(notes)]
    try:
        limits_of(notes.get(USER_LIMITS, ""))
    except ValueError as error:
        errors.append(field_error.invalid(f"metadata.annotations[{USER_LIMITS}]", notes[USER_LIMITS], str(error)))
    if errors:
        raise invalid(request.kind, request.name, errors)


# Namespaces, nodes, CustomResourceDefinitions and webhooks.

# Namespace life cycle: nothing new where no namespace is, or where it is ending.

PROTECTED = ("default", "kube-system", "kube-public")


def check_live(request: Request, view: View) -> None:
    """Creating needs an existing namespace that is not being deleted.

    Raises:
        NotFound: the namespace does not exist.
        ApiError: 403 while it is being deleted.

    """
    if request.operation != "CREATE" or not request.kind.namespaced:
        return
    name = request.namespace or ""
    namespace = view.find(NAMESPACES, name)
    if namespace is None:
        raise not_found(NAMESPACES, name)
    if namespace.metadata.deletion_timestamp:
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
        why = f"unable to create new content in namespace {name} because it is being terminated"
        raise forbidden(request.kind, request.name, why, [cause])


def protect(request: Request, view: View) -> None:
    """The namespaces that every cluster has stay.

    Raises:
        ApiError: 403 for their deletion.

    """
    if request.operation == "DELETE" and request.name in PROTECTED:
        raise forbidden(request.kind, request.name, "this namespace may not be deleted")


def taint_new(request: Request, view: View) -> None:
    """Keep pods away from a new node that does not say that it is ready; who watches nodes takes the taint off."""
    node: Node = request.object
    if request.operation != "CREATE":
        return
    ready = is_true(node.status.conditions, "Ready")
    if ready or any(each.key == NODE_NOT_READY for each in node.spec.taints or ()):
        return
    node.spec.taints = [*(node.spec.taints or ()), Taint(key=NODE_NOT_READY, effect="NoSchedule")]


# CustomResourceDefinitions: names are accepted when they are free, and a deletion takes the objects along.

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_BUILT_IN = frozenset(kind.resource for kind in CUSTOM_KINDS)


def accept(request: Request, view: Clocked) -> None:
    """Decide about the names of a definition and remember its storage version."""
    crd: CustomResourceDefinition = request.object
    if request.subresource:
        return
    if request.operation == "CREATE":
        crd.status = type(crd.status)()
    note_storage(crd)
    accept_names(crd, view.all(NAMED_DEFINITIONS), view.now())


def begin_deletion(request: Request, view: Clocked) -> None:
    """A definition that is deleted waits until its objects are gone; those of built-in kinds stay.

    Raises:
        ApiError: 403 for the deletion of a built-in kind.

    """
    if request.operation != "DELETE":
        return
    crd: CustomResourceDefinition = request.object
    if crd.metadata.name in _BUILT_IN:
        raise forbidden(request.kind, request.name, "the kind is built into this server")
    if crd.metadata.deletion_timestamp is not None:
        return
    crd.metadata.finalizers = [*(crd.metadata.finalizers or ()), CLEANUP]
    message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    set_condition(crd, TERMINATING, "True", "InstanceDeletionPending", message, view.now())


def unusable(request: Request) -> list[str]:
    """What to tell the writer of a definition whose table of jobs cannot be used."""
    if request.kind is not CUSTOM_RESOURCE_DEFINITIONS:
        return []
    _, wrong = described([request.object], alone=True)
    return [f"metadata.annotations[{JOB_KIND}]: {why}; objects of the kind count as no jobs" for why in wrong.values()]


_ACTED_ON_BY_HUBS: Final = frozenset(
    kind.resource for kind in (FLEETS, APPLICATIONS, PROPAGATION_POLICIES, CLUSTER_PROPAGATION_POLICIES)
)


def without_members(request: Request, view: View) -> list[str]:
    """What to tell the writer of an object of a fleet where no cluster is attached, as on any that is no hub."""
    parts = request.object.spec.replicated_jobs or () if request.kind is HYPER_JOBS else ()
    spread = any(each.cluster_names for each in parts)
    if not (spread or request.kind.resource in _ACTED_ON_BY_HUBS) or any(True for _ in view.all(ATTACHED_CLUSTERS)):
        return []
    if spread:
        return ["no cluster is attached: all jobs run here, whatever clusterNames says (unisono fleet join)"]
    return [f"no cluster is attached: nothing comes of this {request.kind.kind} until one is (unisono fleet join)"]


def aimless(request: Request, view: View) -> list[str]:
    """Warnings for a Command that has no effect; it is deleted like any other."""
    if request.kind is not COMMANDS or request.operation != "CREATE":
        return []
    command: Command = request.object
    target, resolved = command.target, target_of(command)
    if target is None or resolved is None:
        return ["target: Jobs of batch.volcano.sh and Queues obey commands: nothing comes of this one"]
    kind, live = resolved[0], view.find(resolved[0], target.name, request.namespace if resolved[0].namespaced else None)
    if live is None:
        return [f"target: there is no {kind.kind} {target.name}: nothing comes of this command"]
    if target.uid not in ("", live.metadata.uid) and kind is JOBS:
        return [f"target.uid: {kind.kind} {target.name} has another uid: nothing comes of this command"]
    if command.action not in COMMANDS_OF[kind]:
        return [f"action: a {kind.kind} does not obey {command.action}: write one of {', '.join(COMMANDS_OF[kind])}"]
    return []


def check_not_terminating(request: Request) -> None:
    """Nothing new of a kind whose definition is being deleted.

    Raises:
        ApiError: 403.

    """
    kind = request.kind
    if request.operation == "CREATE" and isinstance(kind, CustomKind) and kind.definition.terminating:
        why = "create not allowed while custom resource definition is terminating"
        raise forbidden(kind, request.name, why)


def unreached(request: Request, view: View) -> list[str]:
    """A sentence for each webhook that is not asked, or that nothing answers at."""
    warnings = []
    for hook in request.object.webhooks or ():
        service = hook.client_config.service if hook.client_config is not None else None
        if does_our_work(hook):
            warnings.append(f"webhook {hook.name} is not asked: this API server has its defaults and rules itself")
        elif service is not None:
            why = hindrance(
                service, view.find(SERVICES, service.name, service.namespace), view.all(PODS, service.namespace)
            )
            fails = "is passed over" if hook.failure_policy == "Ignore" else "refuses every request that it is shown"
            warnings += [f"webhook {hook.name} {fails} until a pod answers: {why}"] if why else []
    return warnings


def lends_folders(request: Request, view: View) -> list[str]:
    """A warning for who gives rights where pods may write in folders of the machine with their owner's rights."""
    if request.kind is ROLE_BINDINGS:
        space = view.find(NAMESPACES, request.namespace or "")
        spaces = [space] if space is not None else []
    elif request.kind is CLUSTER_ROLE_BINDINGS:
        spaces = list(view.all(NAMESPACES))
    else:
        return []
    names = [one.metadata.name for one in spaces if (one.metadata.annotations or {}).get(WRITABLE_DIRECTORIES)]
    if not names or not request.object.subjects:
        return []
    shown = f"namespace {names[0]}" + (f" and {len(names) - 1} others" if names[1:] else "")
    return [
        f"pods in {shown} may write in folders of this machine with their owner's rights (annotation "
        f"{WRITABLE_DIRECTORIES}): take it away before you let others make pods there"
    ]
