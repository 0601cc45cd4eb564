"""Rules of AttachedClusters, Fleets and Applications; texts are Kurator's where it has the rule."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api.annotations import PRICES
from unisono.api.application import Application, ApplicationDestination, SyncPolicy
from unisono.api.field_error import FieldError, duplicate, invalid, not_supported, required
from unisono.api.fleet import AttachedCluster, Fleet
from unisono.api.prices import parse_prices

_ATTACHED = ("AttachedCluster", "Attached")
# A cluster's name begins the names of its nodes in the hub.
LONGEST_NAME = 63


def validate_attached_cluster(cluster: AttachedCluster, _old: AttachedCluster | None) -> Iterator[FieldError]:
    """A Secret is named, once or twice the same."""
    spec, name = cluster.spec, cluster.metadata.name
    if len(name) > LONGEST_NAME:
        yield invalid("metadata.name", name, f"must be no more than {LONGEST_NAME} characters")
    if not spec.secret.name:
        yield required("spec.kubeconfig.name", "must be set: name the Secret that holds the kubeconfig")
    try:
        parse_prices((cluster.metadata.annotations or {}).get(PRICES, ""))
    except ValueError as error:
        yield invalid(f"metadata.annotations[{PRICES}]", (cluster.metadata.annotations or {})[PRICES], str(error))
    short, long = spec.kubeconfig_secret_ref, spec.kubeconfig.name if spec.kubeconfig is not None else None
    if short and long and short != long:
        yield invalid("spec.kubeconfigSecretRef", short, f"must be the same as spec.kubeconfig.name ({long})")


def validate_fleet(fleet: Fleet, _old: Fleet | None) -> Iterator[FieldError]:
    """Every member has a name, once, and is an attached cluster."""
    seen: set[str] = set()
    for index, member in enumerate(fleet.spec.clusters or ()):
        path = f"spec.clusters[{index}]"
        if not member.name:
            yield required(f"{path}.name")
        elif member.name in seen:
            yield duplicate(f"{path}.name", member.name)
        seen.add(member.name or "")
        for field, given in (("kind", member.kind), ("type", member.type)):
            if given and given not in _ATTACHED:
                yield not_supported(f"{path}.{field}", given, _ATTACHED)
        if member.namespace and member.namespace != fleet.metadata.namespace:
            detail = f"must be the namespace of the fleet ({fleet.metadata.namespace})"
            yield invalid(f"{path}.namespace", member.namespace, detail)


def validate_application(application: Application, _old: Application | None) -> Iterator[FieldError]:
    """One source, policies that fit it, and one fleet in the whole."""
    spec = application.spec
    source = spec.source
    given = [
        name
        for name, value in (
            ("helmRepository", source.helm_repository),
            ("gitRepository", source.git_repository),
            ("ociRepository", source.oci_repository),
            ("manifests", source.manifests),
        )
        if value is not None
    ]
    if len(given) != 1:
        yield required("spec.source", "exactly one of helmRepository, gitRepository, ociRepository and manifests")
        return
    for index, policy in enumerate(spec.sync_policies or ()):
        yield from _policy(policy, given[0], f"spec.syncPolicies[{index}]")
    yield from _fleets(spec.destination, spec.sync_policies or ())


def _policy(policy: SyncPolicy, source: str, path: str) -> Iterator[FieldError]:
    if policy.helm is not None and policy.kustomization is not None:
        yield invalid(path, "helm, kustomization", "a policy has one of helm and kustomization")
    if source == "manifests" and policy.helm is not None:
        yield invalid(f"{path}.helm", "helm", "inline manifests need no chart")
    elif source != "manifests" and policy.helm is None and policy.kustomization is None:
        yield required(path, "helm or kustomization must be set")
    if source == "helmRepository" and policy.kustomization is not None:
        yield invalid(f"{path}.kustomization", "kustomization", "a helmRepository has charts: set helm")


def _fleets(whole: ApplicationDestination | None, policies: list[SyncPolicy] | tuple[()]) -> Iterator[FieldError]:
    """As Kurator's webhook has it: the same fleet everywhere."""
    first = ""
    for index, policy in enumerate(policies):
        path = f"spec.syncPolicies[{index}].destination.fleet"
        named = policy.destination.fleet if policy.destination is not None else ""
        if whole is not None:
            if named and named != whole.fleet:
                yield invalid(path, named, f"must be same as application.spec.destination.fleet:{whole.fleet}")
            continue
        if not named:
            yield required(path, "must be set when application.spec.destination.fleet is not set")
        elif first and named != first:
            yield invalid(path, named, f"must be same as firstPolicyFleet:{first}")
        first = first or named
