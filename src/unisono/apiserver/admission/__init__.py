"""Admission: what the server adds to objects and refuses in view of other objects; one small function per rule.

Rules about one object alone live in ``api.validation``. A rule is a function of a ``Request`` and a ``View``; it may
change ``request.object`` (mutating rules) or raise an ``ApiError`` (both). Mutating rules run after defaulting and
before validation, checking rules after validation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from unisono.api.annotations import SUBMITTED
from unisono.api.groups.admission_registration import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from unisono.api.kind import Kind
from unisono.api.validation.training import object_warnings
from unisono.apiserver.admission import cluster, jobs, pods, quotas
from unisono.apiserver.admission.request import Adviser, Clocked, Operation, Request, Rule, Settings, View
from unisono.apiserver.custom.kinds import CustomKind, as_job
from unisono.jobkinds.idle_fields import idle_fields

__all__ = ["Admission", "Adviser", "Operation", "Request", "Rule", "Settings", "View"]

_MUTATING: dict[str, tuple[Rule, ...]] = {
    "customresourcedefinitions.apiextensions.k8s.io": (cluster.accept,),
    "pods": (pods.resolve, pods.complete, pods.merge_label_keys, quotas.fill_in),
    "nodes": (cluster.taint_new,),
    "persistentvolumeclaims": (quotas.choose_class,),
    "jobs.batch.volcano.sh": (jobs.settle_scale,),
    "podgroups.scheduling.volcano.sh": (jobs.queue_of_namespace,),
    "podgroups.scheduling.k8s.io": (pods.resolve_group,),
    "compositepodgroups.scheduling.k8s.io": (pods.resolve_group,),
}
_CHECKING: dict[str, tuple[Rule, ...]] = {
    "namespaces": (cluster.protect,),
    "pods": (
        pods.check_exists,
        pods.check_same_group,
        pods.check_system_priority,
        pods.check_foreign_pods,
        pods.check_disruption_budget,
        pods.check_overhead,
        quotas.check_limit_ranges,
    ),
    "persistentvolumeclaims": (quotas.check_limit_ranges, quotas.check_growth),
    "priorityclasses.scheduling.k8s.io": (pods.protect,),
    "customresourcedefinitions.apiextensions.k8s.io": (cluster.begin_deletion,),
    "resourceclaims.resource.k8s.io": (pods.check_admin_access,),
    "resourceclaimtemplates.resource.k8s.io": (pods.check_admin_access,),
    "jobs.batch.volcano.sh": (jobs.check_job_queue, pods.check_system_priority, pods.check_foreign_pods),
    "podgroups.scheduling.volcano.sh": (jobs.check_group_queue, pods.check_system_priority),
}
_QUEUES = "queues.scheduling.volcano.sh"
_WEBHOOKS = (MUTATING_WEBHOOKS.resource, VALIDATING_WEBHOOKS.resource)
_PREPARING: dict[str, tuple[Rule, ...]] = {"jobs.batch.volcano.sh": (cluster.queue_of_namespace,)}
_OF_USERS = frozenset(kind.resource for kind in SUBMITTED)


def _has_author(kind: Kind[Any]) -> bool:
    """Whether it is written down who submits an object of a kind: limits and shares of users rest on it."""
    return kind.resource in _OF_USERS or (isinstance(kind, CustomKind) and as_job(kind) is not None)


class Admission:
    """The chain of rules; further ones can be given per resource."""

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        mutating: Mapping[str, Sequence[Rule]] | None = None,
        checking: Mapping[str, Sequence[Rule]] | None = None,
    ) -> None:
        self.settings = settings = settings or Settings()
        self._mutating = _joined(_MUTATING, mutating or {})
        queue_rules = tuple(partial(rule, settings) for rule in (jobs.protect, jobs.check_parent, jobs.check_family))
        self._checking = _joined({**_CHECKING, _QUEUES: (*queue_rules, cluster.check_notes)}, checking or {})
        self._everywhere: tuple[Rule, ...] = (partial(jobs.check_size, settings),)
        self._completing: tuple[Rule, ...] = ()
        self._advisers: dict[str, Adviser] = {}

    def extend(
        self,
        *,
        mutating: Mapping[str, Sequence[Rule]] | None = None,
        checking: Mapping[str, Sequence[Rule]] | None = None,
        everywhere: Sequence[Rule] = (),
        completing: Sequence[Rule] = (),
        advisers: Mapping[str, Adviser] | None = None,
    ) -> None:
        """Add rules behind those that are there, per resource; those of ``everywhere`` check every resource,
        those of ``completing`` complete each.

        An adviser, one per resource, refuses nothing: it says what to tell the writer.
        """
        self._advisers |= advisers or {}
        self._mutating = _joined(self._mutating, mutating or {})
        self._checking = _joined(self._checking, checking or {})
        self._everywhere += tuple(everywhere)
        self._completing += tuple(completing)

    def prepare(self, request: Request, view: Clocked) -> None:
        """Complete ``request.object`` before it has its defaults: what they stand for can still be told apart."""
        for rule in _PREPARING.get(request.kind.resource, ()):
            rule(request, view)

    def mutate(self, request: Request, view: Clocked) -> None:
        """Complete ``request.object``.

        Raises:
            ApiError: the request is refused.
        """
        cluster.check_live(request, view)
        cluster.check_not_terminating(request)
        for rule in self._mutating.get(request.kind.resource, ()):
            rule(request, view)
        if not request.subresource and request.operation != "DELETE":
            if _has_author(request.kind):
                cluster.note_user(request, view)
            elif as_job(request.kind) is not None:
                cluster.keep_user(request, view)
        if not request.subresource and jobs.is_dispatched(request.kind):
            jobs.keep(request, view)
        for rule in self._completing:
            rule(request, view)

    def check(self, request: Request, view: Clocked) -> None:
        """Refuse what must not be.

        Raises:
            ApiError: the request is refused.
        """
        for rule in self._checking.get(request.kind.resource, ()):
            rule(request, view)
        for rule in self._everywhere:
            rule(request, view)
        # Last: what another rule refuses must not count.
        quotas.check_quotas(request, view)

    def warnings(self, request: Request, view: Clocked) -> list[str]:
        """What to tell the writer of an object that is stored all the same."""
        written = request.operation != "DELETE" and not request.subresource
        messages = [*object_warnings(request.kind, request.object), *cluster.unheeded(request, view)] if written else []
        if written:
            messages += idle_fields(request.kind, request.object)
            messages += cluster.unenforced(request, view)
            messages += cluster.unusable(request)
            messages += cluster.without_members(request, view)
            messages += pods.unusable_classes(request, view)
            messages += cluster.aimless(request, view)
            messages += cluster.lends_folders(request, view)
        if request.kind.resource == _QUEUES:
            messages += jobs.warnings(request, view)
        elif request.kind.resource in _WEBHOOKS and written:
            messages += cluster.unreached(request, view)
        return messages

    async def advice(self, request: Request) -> list[str]:
        """The same from those who take their time; the object must be complete."""
        adviser = self._advisers.get(request.kind.resource)
        if adviser is None or request.operation == "DELETE" or request.subresource:
            return []
        return await adviser(request)


def _joined(own: Mapping[str, Sequence[Rule]], further: Mapping[str, Sequence[Rule]]) -> dict[str, tuple[Rule, ...]]:
    resources = {*own, *further}
    return {name: (*own.get(name, ()), *further.get(name, ())) for name in resources}
