"""Namespaces, nodes, CustomResourceDefinitions and webhooks."""

from __future__ import annotations

from typing import Final

from unisono.api.annotations import JOB_KIND
from unisono.api.conditions import is_true
from unisono.api.core import CustomResourceDefinition, Node, Taint
from unisono.api.groups.admission_registration import does_our_work, hindrance
from unisono.api.keys import NODE_NOT_READY
from unisono.api.kind_families import (
    APPLICATIONS,
    ATTACHED_CLUSTERS,
    CLUSTER_PROPAGATION_POLICIES,
    FLEETS,
    PROPAGATION_POLICIES,
)
from unisono.api.kinds import CUSTOM_KINDS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS, SERVICES
from unisono.apiserver.admission.request import Clocked, Request, View
from unisono.apiserver.custom.definitions import (
    NAMED_DEFINITIONS,
    TERMINATING,
    accept_names,
    note_storage,
    set_condition,
)
from unisono.apiserver.custom.kinds import CustomKind
from unisono.apiserver.failures import forbidden, not_found
from unisono.jobkinds.tables import described

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


# A new node is not ready until its agent says that it is.


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
    if request.kind.resource not in _ACTED_ON_BY_HUBS or any(True for _ in view.all(ATTACHED_CLUSTERS)):
        return []
    return [f"no cluster is attached: nothing comes of this {request.kind.kind} until one is (unisono fleet join)"]


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
    told = []
    for hook in request.object.webhooks or ():
        service = hook.client_config.service if hook.client_config is not None else None
        if does_our_work(hook):
            told.append(f"webhook {hook.name} is not asked: this API server has its defaults and rules itself")
        elif service is not None:
            why = hindrance(
                service, view.find(SERVICES, service.name, service.namespace), view.all(PODS, service.namespace)
            )
            fails = "is passed over" if hook.failure_policy == "Ignore" else "refuses every request that it is shown"
            told += [f"webhook {hook.name} {fails} until a pod answers: {why}"] if why else []
    return told
