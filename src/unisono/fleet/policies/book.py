"""Keeps the policies, fleets and data of a hub, answers what follows for a job, and binds claims to their data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from unisono.api import kind_families
from unisono.api.annotations import FLEET
from unisono.api.base import Object
from unisono.api.core import Pod
from unisono.api.groups.fleet import Fleet
from unisono.api.groups.propagation import DataSourceClaim, DataSourceClaimStatus, DataSourceStatus
from unisono.api.kind import Kind
from unisono.controllers.objects import write_status
from unisono.controllers.owners import index
from unisono.fleet.jobs.decide import MemberView
from unisono.fleet.policies.rules import (
    Asked,
    Cluster,
    Policy,
    Rules,
    cluster_of_object,
    is_about,
    policy_of,
    rules_of,
    source_of,
    subject_of,
    wish_of,
)
from unisono.kube.controller import Context, Controller

MOST: Final = 1000
"""Policies of one namespace, and claims of one namespace, that are looked at."""
_RULES, _SOURCE = "rules", "source/"
_NAMESPACE = "fleet-namespace"
_MOST_REFS = 100


class PolicyBook(Controller):
    """Keys are ``rules`` (jobs are looked at again), a claim's, and ``source/NAME``."""

    name = "fleet-policies"
    workers = 2

    def __init__(self, views: Mapping[str, MemberView], look_again: Callable[[], None]) -> None:
        """``views`` tells which members are lost; ``look_again`` is called when the rules have changed."""
        self._views, self._look_again = views, look_again

    def setup(self, context: Context) -> None:
        """Watch all that rules are made of."""
        self._client, self._context = context.client, context

        def rules(_: Any) -> Iterable[str]:
            return (_RULES,)

        self._clusters = context.watch(kind_families.ATTACHED_CLUSTERS, rules, when=_matters)
        self._fleets = context.watch(kind_families.FLEETS, rules, when=_matters)
        self._own = context.watch(kind_families.PROPAGATION_POLICIES, rules, optional=True)
        self._all = context.watch(kind_families.CLUSTER_PROPAGATION_POLICIES, rules, optional=True)
        self._sources = context.watch(kind_families.DATA_SOURCES, self._of_source, optional=True)
        self._claims = context.watch(kind_families.DATA_SOURCE_CLAIMS, self._of_claim, optional=True)
        index(self._own, _NAMESPACE, _namespace_of)
        index(self._claims, _NAMESPACE, _namespace_of)

    def rules(
        self, kind: Kind[Any], job: Object, pods: Sequence[Pod], waited: float, avoided: Mapping[str, float]
    ) -> Rules:
        """Where a job may go now, and had better go."""
        subject = subject_of(kind, job, pods)
        own = islice(self._own.by_index(_NAMESPACE, subject.namespace), MOST)
        claims = islice(self._claims.by_index(_NAMESPACE, subject.namespace), MOST)
        sources = self._sources.items()
        return rules_of(
            Asked(
                subject,
                self.clusters(),
                policy_of(subject, own, islice(self._all.items(), MOST)),
                self._fleet(subject.annotations.get(FLEET), subject.namespace),
                [wish_of(claim, sources) for claim in claims if is_about(claim, subject)],
                waited,
                avoided,
            )
        )

    def policy(self, kind: Kind[Any], obj: Object) -> Policy | None:
        """The policy that is about an object; None where there is none."""
        subject = subject_of(kind, obj)
        own = islice(self._own.by_index(_NAMESPACE, subject.namespace), MOST)
        return policy_of(subject, own, islice(self._all.items(), MOST))

    def clusters(self) -> list[Cluster]:
        """All members, by name."""
        members = [
            cluster_of_object(each, lost=self._is_lost(each.metadata.name))
            for each in self._clusters.items()
            if not each.metadata.deletion_timestamp
        ]
        return sorted(members, key=lambda each: each.name)

    async def reconcile(self, key: str) -> float | None:
        """Tell that rules have changed, or bring the status of a claim or a source up to date."""
        if key == _RULES:
            self._look_again()
        elif key.startswith(_SOURCE):
            await self._count(key.removeprefix(_SOURCE))
        else:
            await self._bind(key)
        return None

    async def _bind(self, key: str) -> None:
        claim = self._claims.get(key)
        if claim is None or claim.metadata.deletion_timestamp:
            return
        source = source_of(claim, self._sources.items())
        name = source.metadata.name if source is not None else None
        status = DataSourceClaimStatus(
            phase="Bound" if name else "Pending", bound_data_source=name, conditions=claim.status.conditions
        )
        await write_status(self._client, kind_families.DATA_SOURCE_CLAIMS, claim, status)

    async def _count(self, name: str) -> None:
        source = self._sources.get(name)
        if source is None or source.metadata.deletion_timestamp:
            return
        bound = sorted(each.key for each in self._claims.items() if each.status.bound_data_source == name)
        refs = [dict(zip(("namespace", "name"), key.split("/"), strict=True)) for key in bound[:_MOST_REFS]]
        status = DataSourceStatus(claim_refs=refs or None, bound_claims=len(bound), conditions=source.status.conditions)
        await write_status(self._client, kind_families.DATA_SOURCES, source, status)

    def _fleet(self, name: str | None, namespace: str) -> Collection[str] | None:
        """Members of the Fleet of a name: that of the namespace itself before others."""
        if not name:
            return None
        candidates = [each for each in self._fleets.items() if name in (each.metadata.name, each.key)]
        fleet = min(candidates, key=lambda each: (each.metadata.namespace != namespace, each.key), default=None)
        return frozenset(_members(fleet)) if fleet is not None else frozenset()

    def _is_lost(self, name: str) -> bool:
        view = self._views.get(name)
        return view is not None and view.lost_seconds > 0

    def _of_source(self, source: Any) -> Iterable[str]:
        yield _RULES
        yield f"{_SOURCE}{source.metadata.name}"
        yield from (each.key for each in self._claims.items())

    def _of_claim(self, claim: DataSourceClaim) -> Iterable[str]:
        yield _RULES
        yield claim.key
        if claim.status.bound_data_source:
            yield f"{_SOURCE}{claim.status.bound_data_source}"


def _namespace_of(obj: Object) -> Iterable[str]:
    yield obj.metadata.namespace or ""


def _members(fleet: Fleet) -> Iterable[str]:
    return (each.name for each in fleet.spec.clusters or () if each.name)


def _matters(_type: Any, new: Any, old: Any) -> bool:
    """Statuses change all the time and say nothing about where jobs may go."""
    return bool(
        old is None
        or new.spec != old.spec
        or new.metadata.labels != old.metadata.labels
        or new.metadata.annotations != old.metadata.annotations
        or new.metadata.deletion_timestamp != old.metadata.deletion_timestamp
    )
