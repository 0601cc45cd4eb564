"""Rules of pods and pod templates, as Kubernetes validates them; absent values that have a default are fine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from unisono.api import names
from unisono.api.core.container import Container
from unisono.api.core.pod import Pod, PodSpec, PodTemplateSpec
from unisono.api.core.storage import PersistentVolumeClaim
from unisono.api.core.volume import PersistentVolumeClaimVolumeSource, Volume
from unisono.api.field_error import FieldError, duplicate, forbidden, invalid, required
from unisono.api.recent_cache import Known
from unisono.api.validation.affinity import validate_affinity, validate_spread, validate_tolerations
from unisono.api.validation.container import validate_container, validate_host_ports
from unisono.api.validation.meta import at_least, by, named, one_of, validate_labels, validate_template_meta
from unisono.api.validation.quantities import validate_requirements, validate_resource_map
from unisono.api.validation.volume import validate_volumes

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_LONGEST_DEADLINE = 2**31 - 1
_encode = msgspec.json.Encoder().encode
_passed = Known(4096)
_IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_pod(pod: Pod, old: Pod | None) -> Iterator[FieldError]:
    """Rules of a pod; on an update also what may change."""
    if old is not None and pod.spec is old.spec:
        return  # a change of the status carries the stored spec along, which was right when it was stored
    yield from _spec(pod.spec)
    if old is not None:
        yield from _update(pod.spec, old.spec)
    elif pod.spec.ephemeral_containers:
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")


def _spec(spec: PodSpec) -> Iterator[FieldError]:
    """Rules of a pod's own spec; those that equal specs have passed are not looked at again."""
    encoded = _encode(spec)
    if _passed.met(PodSpec, encoded):
        return
    errors = [*validate_pod_spec(spec, "spec")]
    if not errors:
        _passed.add(PodSpec, encoded)
    yield from errors


def with_claims(template: PodTemplateSpec, claims: Iterable[PersistentVolumeClaim]) -> PodTemplateSpec:
    """The template with the volumes that its pods get from the claims that a controller makes for them."""
    have = {volume.name for volume in template.spec.volumes or ()}
    made = [
        Volume(name=name, persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=name))
        for claim in claims
        if (name := claim.metadata.name) and name not in have
    ]
    if not made:
        return template
    pod = msgspec.structs.replace(template.spec, volumes=[*(template.spec.volumes or ()), *made])
    return msgspec.structs.replace(template, spec=pod)


def validate_template(template: PodTemplateSpec, path: str) -> Iterator[FieldError]:
    """Rules of a pod template."""
    yield from validate_template_meta(template.metadata, f"{path}.metadata")
    yield from validate_pod_spec(template.spec, f"{path}.spec")
    if template.spec.ephemeral_containers:
        yield forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def validate_pod_spec(spec: PodSpec, path: str) -> Iterator[FieldError]:
    """Rules of a pod's spec."""
    yield from validate_volumes(spec.volumes, f"{path}.volumes")
    yield from _containers(spec, path)
    yield from one_of(f"{path}.restartPolicy", spec.restart_policy, _RESTART)
    yield from one_of(f"{path}.dnsPolicy", spec.dns_policy, _DNS)
    yield from one_of(f"{path}.preemptionPolicy", spec.preemption_policy, ("PreemptLowerPriority", "Never"))
    if spec.dns_policy == "None" and not (spec.dns_config and spec.dns_config.nameservers):
        yield required(
            f"{path}.dnsConfig.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None"
        )
    yield from at_least(f"{path}.terminationGracePeriodSeconds", spec.termination_grace_period_seconds, 0)
    deadline = spec.active_deadline_seconds
    if deadline is not None and not 1 <= deadline <= _LONGEST_DEADLINE:
        yield invalid(
            f"{path}.activeDeadlineSeconds", deadline, f"must be between 1 and {_LONGEST_DEADLINE}, inclusive"
        )
    yield from _names(spec, path)
    yield from validate_labels(spec.node_selector, f"{path}.nodeSelector")
    yield from validate_affinity(spec.affinity, f"{path}.affinity")
    yield from validate_tolerations(spec.tolerations, f"{path}.tolerations")
    yield from validate_spread(spec.topology_spread_constraints, f"{path}.topologySpreadConstraints")
    yield from _gates(spec, path)
    yield from validate_resource_map(spec.overhead, f"{path}.overhead")
    if spec.resources is not None:
        yield from validate_requirements(spec.resources, f"{path}.resources", pod=True)
    for index, alias in enumerate(spec.host_aliases or ()):
        yield from by(names.ip_address, f"{path}.hostAliases[{index}].ip", alias.ip)
        for hostname in alias.hostnames or ():
            yield from by(names.dns_subdomain, f"{path}.hostAliases[{index}].hostnames", hostname)
    if spec.os is not None:
        yield from one_of(f"{path}.os.name", spec.os.name, ("linux", "windows"))


def _names(spec: PodSpec, path: str) -> Iterator[FieldError]:
    for wire, value, check in (
        ("serviceAccountName", spec.service_account_name, names.dns_subdomain),
        ("nodeName", spec.node_name, names.dns_subdomain),
        ("priorityClassName", spec.priority_class_name, names.dns_subdomain),
        ("runtimeClassName", spec.runtime_class_name, names.dns_subdomain),
        ("hostname", spec.hostname, names.dns_label),
        ("subdomain", spec.subdomain, names.dns_label),
        ("schedulerName", spec.scheduler_name, names.qualified_name),
    ):
        if value:
            yield from by(check, f"{path}.{wire}", value)
    yield from named(f"{path}.imagePullSecrets", spec.image_pull_secrets)


def _gates(spec: PodSpec, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, gate in enumerate(spec.scheduling_gates or ()):
        at = f"{path}.schedulingGates[{index}]"
        yield from by(names.qualified_name, at, gate.name)
        if gate.name in seen:
            yield duplicate(at, gate.name)
        seen.add(gate.name)
    group, at = spec.scheduling_group, f"{path}.schedulingGroup"
    if group is not None and group.pod_group_name is None:
        yield required(at, "must specify one of: `podGroupName`")
    elif group is not None:
        yield from by(names.dns_subdomain, f"{at}.podGroupName", group.pod_group_name or "")
    for index, readiness in enumerate(spec.readiness_gates or ()):
        yield from by(names.qualified_name, f"{path}.readinessGates[{index}].conditionType", readiness.condition_type)


def _containers(spec: PodSpec, path: str) -> Iterator[FieldError]:
    volumes = frozenset(volume.name for volume in spec.volumes or ())
    host_network = bool(spec.host_network)
    seen: set[str] = set()
    regular = list(_placed(spec.containers, f"{path}.containers"))
    if not regular:
        yield required(f"{path}.containers")
    for init, placed in ((True, _placed(spec.init_containers, f"{path}.initContainers")), (False, iter(regular))):
        for at, container in placed:
            yield from validate_container(container, at, volumes, host_network=host_network, init=init)
            if container.name and container.name in seen:
                yield duplicate(f"{at}.name", container.name)
            seen.add(container.name)
    yield from validate_host_ports(regular)


def _placed(containers: list[Container] | None, path: str) -> Iterator[tuple[str, Container]]:
    for index, container in enumerate(containers or ()):
        yield f"{path}[{index}]", container


# Filled in or taken away by the server's own subresources and admission, not by updates of users.
_MUTABLE = ("active_deadline_seconds", "tolerations", "termination_grace_period_seconds")


def _update(new: PodSpec, old: PodSpec) -> Iterator[FieldError]:
    new_gates = {gate.name for gate in new.scheduling_gates or ()}
    old_gates = {gate.name for gate in old.scheduling_gates or ()}
    if new_gates - old_gates:
        listed = ", ".join(sorted(new_gates - old_gates))
        detail = f"only deletion is allowed, but found new scheduling gates: {listed}"
        yield forbidden("spec.schedulingGates", detail)
    if _frozen(new, gated=bool(old_gates)) != _frozen(old, gated=bool(old_gates)):
        yield forbidden("spec", _IMMUTABLE)
    kept = old.tolerations or []
    # A toleration may be added, or have its seconds changed; none may go.
    remaining = [_timeless(each) for each in new.tolerations or ()]
    if any(_timeless(each) not in remaining for each in kept):
        yield forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    if old.active_deadline_seconds is not None:
        if new.active_deadline_seconds is None:
            yield invalid("spec.activeDeadlineSeconds", None, "must not update from a positive integer to nil value")
        elif new.active_deadline_seconds > old.active_deadline_seconds:
            detail = "must be less than or equal to previous value"
            yield invalid("spec.activeDeadlineSeconds", new.active_deadline_seconds, detail)
    if new.termination_grace_period_seconds != old.termination_grace_period_seconds and not (
        (old.termination_grace_period_seconds or 0) < 0 and new.termination_grace_period_seconds == 1
    ):
        yield forbidden("spec", _IMMUTABLE)


def _timeless(toleration: msgspec.Struct) -> dict[str, object]:
    return {
        name: value
        for name, value in msgspec.structs.asdict(toleration).items()
        if name != "toleration_seconds" and value is not None
    }


def _frozen(spec: PodSpec, *, gated: bool) -> PodSpec:
    """The spec without what an update may change."""
    frozen = msgspec.structs.replace(spec, scheduling_gates=None, **dict.fromkeys(_MUTABLE))
    frozen.containers = _without_image(spec.containers)
    frozen.init_containers = _without_image(spec.init_containers)
    if gated:
        # A gated pod was not looked at by any scheduler yet: where it may run can still be narrowed.
        frozen.node_selector, frozen.affinity = None, None
    return frozen


def _without_image(containers: list[Container] | None) -> list[Container] | None:
    if containers is None:
        return None
    return [msgspec.structs.replace(container, image=None) for container in containers]
