"""Rules of pods and pod templates, as Kubernetes validates them; absent values that have a default are fine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from unisono.api import names
from unisono.api.base import LabelSelector
from unisono.api.core.container import Container
from unisono.api.core.pod import (
    Affinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSpec,
    PodTemplateSpec,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from unisono.api.core.volume import EmptyDirVolumeSource, Volume
from unisono.api.decode import Known
from unisono.api.field_error import FieldError, duplicate, forbidden, invalid, not_found, not_supported, required
from unisono.api.validation import meta
from unisono.api.validation.container import validate_container, validate_host_ports
from unisono.api.validation.volume import validate_volumes

# Rules of affinity, tolerations, taints and spreading.

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def validate_affinity(affinity: Affinity | None, path: str) -> Iterator[FieldError]:
    """Node and pod affinity."""
    if affinity is None:
        return
    node = affinity.node_affinity
    if node is not None:
        required_terms = node.required_during_scheduling_ignored_during_execution
        if required_terms is not None:
            at = f"{path}.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
            if not required_terms.node_selector_terms:
                yield required(at, "must have at least one node selector term")
            for index, term in enumerate(required_terms.node_selector_terms or ()):
                yield from _term(term, f"{at}[{index}]")
        for index, preferred in enumerate(node.preferred_during_scheduling_ignored_during_execution or ()):
            at = f"{path}.nodeAffinity.{_PREFERRED}[{index}]"
            yield from _weight(preferred.weight, at)
            if preferred.preference is not None:
                yield from _term(preferred.preference, f"{at}.preference")
    yield from _pods(affinity.pod_affinity, f"{path}.podAffinity")
    yield from _pods(affinity.pod_anti_affinity, f"{path}.podAntiAffinity")


def _weight(weight: int | None, path: str) -> Iterator[FieldError]:
    if not 1 <= (weight or 0) <= 100:
        yield invalid(f"{path}.weight", weight or 0, "must be in the range 1-100")


def _term(term: NodeSelectorTerm, path: str) -> Iterator[FieldError]:
    for index, requirement in enumerate(term.match_expressions or ()):
        yield from _requirement(requirement, f"{path}.matchExpressions[{index}]")
    for index, requirement in enumerate(term.match_fields or ()):
        at = f"{path}.matchFields[{index}]"
        if requirement.operator not in ("In", "NotIn"):
            yield invalid(f"{at}.operator", requirement.operator, "not a valid selector operator")
        elif len(requirement.values or ()) != 1:
            yield required(
                f"{at}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )
        if requirement.key != "metadata.name":
            yield invalid(f"{at}.key", requirement.key, "not a valid field selector key")


def _requirement(requirement: NodeSelectorRequirement, path: str) -> Iterator[FieldError]:
    values = requirement.values or []
    match requirement.operator:
        case "In" | "NotIn":
            if not values:
                yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                yield forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        case "Gt" | "Lt":
            if len(values) != 1:
                yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
            elif not values[0].lstrip("-").isdecimal():
                yield invalid(f"{path}.values[0]", values[0], "for 'Gt', 'Lt' operators, the value must be an integer")
        case operator:
            yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from meta.by(names.qualified_name, f"{path}.key", requirement.key)


def _pods(affinity: PodAffinity | PodAntiAffinity | None, path: str) -> Iterator[FieldError]:
    if affinity is None:
        return
    for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution or ()):
        yield from _pod_term(term, f"{path}.{_REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.preferred_during_scheduling_ignored_during_execution or ()):
        at = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight(weighted.weight, at)
        if weighted.pod_affinity_term is None:
            yield required(f"{at}.podAffinityTerm")
        else:
            yield from _pod_term(weighted.pod_affinity_term, f"{at}.podAffinityTerm")


def _pod_term(term: PodAffinityTerm, path: str) -> Iterator[FieldError]:
    yield from meta.validate_selector(term.label_selector, f"{path}.labelSelector")
    yield from meta.validate_selector(term.namespace_selector, f"{path}.namespaceSelector")
    for index, namespace in enumerate(term.namespaces or ()):
        yield from meta.by(names.dns_label, f"{path}.namespaces[{index}]", namespace)
    yield from _label_keys(term.match_label_keys, f"{path}.matchLabelKeys", term.label_selector)
    yield from _label_keys(term.mismatch_label_keys, f"{path}.mismatchLabelKeys", term.label_selector)
    for index, key in enumerate(term.mismatch_label_keys or ()):
        if key in (term.match_label_keys or ()):
            at = f"{path}.mismatchLabelKeys[{index}]"
            yield invalid(at, key, "exists in both matchLabelKeys and mismatchLabelKeys")
    if not term.topology_key:
        yield required(f"{path}.topologyKey", "can not be empty")
    else:
        yield from meta.by(names.qualified_name, f"{path}.topologyKey", term.topology_key)


def _label_keys(keys: list[str] | None, path: str, selector: LabelSelector | None) -> Iterator[FieldError]:
    if keys and selector is None:
        yield forbidden(path, "must not be specified when labelSelector is not set")
        return
    for index, key in enumerate(keys or ()):
        yield from meta.by(names.qualified_name, f"{path}[{index}]", key)


def validate_tolerations(tolerations: list[Toleration] | None, path: str) -> Iterator[FieldError]:
    """Tolerations of a pod."""
    for index, toleration in enumerate(tolerations or ()):
        yield from _toleration(toleration, f"{path}[{index}]")


def _toleration(toleration: Toleration, path: str) -> Iterator[FieldError]:
    operator = toleration.operator or "Equal"
    if toleration.key:
        yield from meta.by(names.qualified_name, f"{path}.key", toleration.key)
    elif operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{path}.operator", toleration.operator or "", detail)
    match operator:
        case "Equal":
            yield from meta.by(names.label_value, f"{path}.operator", toleration.value or "")
        case "Exists":
            if toleration.value:
                yield invalid(f"{path}.operator", toleration.value, "value must be empty when `operator` is 'Exists'")
        case _:
            yield not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid(f"{path}.effect", toleration.effect or "", detail)
    yield from meta.one_of(f"{path}.effect", toleration.effect or None, EFFECTS)


def validate_taints(taints: list[Taint] | None, path: str) -> Iterator[FieldError]:
    """Taints of a node; key and effect together are unique."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints or ()):
        at = f"{path}[{index}]"
        yield from meta.by(names.qualified_name, f"{at}.key", taint.key)
        yield from meta.by(names.label_value, f"{at}.value", taint.value or "")
        if not taint.effect:
            yield required(f"{at}.effect")
        else:
            yield from meta.one_of(f"{at}.effect", taint.effect, EFFECTS)
        if (taint.key, taint.effect) in seen:
            detail = {"key": taint.key, "value": taint.value or "", "effect": taint.effect}
            yield duplicate(at, detail, "taints must be unique by key and effect pair")
        seen.add((taint.key, taint.effect))


def validate_spread(constraints: list[TopologySpreadConstraint] | None, path: str) -> Iterator[FieldError]:
    """Topology spread constraints of a pod."""
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(constraints or ()):
        at = f"{path}[{index}]"
        if (constraint.max_skew or 0) <= 0:
            yield invalid(f"{at}.maxSkew", constraint.max_skew or 0, "must be greater than zero")
        if not constraint.topology_key:
            yield required(f"{at}.topologyKey", "can not be empty")
        else:
            yield from meta.by(names.qualified_name, f"{at}.topologyKey", constraint.topology_key)
        if constraint.when_unsatisfiable not in ("DoNotSchedule", "ScheduleAnyway"):
            yield not_supported(
                f"{at}.whenUnsatisfiable", constraint.when_unsatisfiable, ("DoNotSchedule", "ScheduleAnyway")
            )
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in seen:
            yield duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0]}, {pair[1]}}}")
        seen.add(pair)
        if constraint.min_domains is not None:
            if constraint.min_domains <= 0:
                yield invalid(f"{at}.minDomains", constraint.min_domains, "must be greater than zero")
            if constraint.when_unsatisfiable != "DoNotSchedule":
                detail = (
                    f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {constraint.when_unsatisfiable}"
                )
                yield invalid(f"{at}.minDomains", constraint.min_domains, detail)
        for name, policy in (
            ("nodeAffinityPolicy", constraint.node_affinity_policy),
            ("nodeTaintsPolicy", constraint.node_taints_policy),
        ):
            yield from meta.one_of(f"{at}.{name}", policy, ("Honor", "Ignore"))
        yield from meta.validate_selector(constraint.label_selector, f"{at}.labelSelector")
        yield from _label_keys(constraint.match_label_keys, f"{at}.matchLabelKeys", constraint.label_selector)
        for place, key in enumerate(constraint.match_label_keys or ()):
            if key in ((constraint.label_selector and constraint.label_selector.match_labels) or ()):
                yield invalid(f"{at}.matchLabelKeys[{place}]", key, "exists in both matchLabelKeys and labelSelector")


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


def with_volumes(template: PodTemplateSpec, names: Iterable[str]) -> PodTemplateSpec:
    """The template with the volumes of these names that a controller gives its pods, as of claims that it makes."""
    have = {"", *(volume.name for volume in template.spec.volumes or ())}
    made = [Volume(name=name, empty_dir=EmptyDirVolumeSource()) for name in dict.fromkeys(names) if name not in have]
    if not made:
        return template
    pod = msgspec.structs.replace(template.spec, volumes=[*(template.spec.volumes or ()), *made])
    return msgspec.structs.replace(template, spec=pod)


def validate_template(template: PodTemplateSpec, path: str, *, remade: bool = False) -> Iterator[FieldError]:
    """Rules of a pod template; ``remade`` as for `validate_one_of`."""
    yield from meta.validate_template_meta(template.metadata, f"{path}.metadata")
    yield from meta.validate_one_of(template.metadata.annotations or {}, f"{path}.metadata", remade=remade)
    yield from meta.validate_between(template.metadata.annotations or {}, f"{path}.metadata")
    yield from validate_pod_spec(template.spec, f"{path}.spec")
    if template.spec.ephemeral_containers:
        yield forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def validate_pod_spec(spec: PodSpec, path: str) -> Iterator[FieldError]:
    """Rules of a pod's spec."""
    yield from validate_volumes(spec.volumes, f"{path}.volumes")
    yield from _containers(spec, path)
    yield from meta.one_of(f"{path}.restartPolicy", spec.restart_policy, _RESTART)
    yield from meta.one_of(f"{path}.dnsPolicy", spec.dns_policy, _DNS)
    yield from meta.one_of(f"{path}.preemptionPolicy", spec.preemption_policy, ("PreemptLowerPriority", "Never"))
    if spec.dns_policy == "None" and not (spec.dns_config and spec.dns_config.nameservers):
        yield required(
            f"{path}.dnsConfig.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None"
        )
    yield from meta.at_least(f"{path}.terminationGracePeriodSeconds", spec.termination_grace_period_seconds, 0)
    deadline = spec.active_deadline_seconds
    if deadline is not None and not 1 <= deadline <= _LONGEST_DEADLINE:
        yield invalid(
            f"{path}.activeDeadlineSeconds", deadline, f"must be between 1 and {_LONGEST_DEADLINE}, inclusive"
        )
    yield from _names(spec, path)
    yield from meta.validate_labels(spec.node_selector, f"{path}.nodeSelector")
    yield from validate_affinity(spec.affinity, f"{path}.affinity")
    yield from validate_tolerations(spec.tolerations, f"{path}.tolerations")
    yield from validate_spread(spec.topology_spread_constraints, f"{path}.topologySpreadConstraints")
    yield from _gates(spec, path)
    yield from meta.validate_resource_map(spec.overhead, f"{path}.overhead")
    if spec.resources is not None:
        yield from meta.validate_requirements(spec.resources, f"{path}.resources", pod=True)
    for index, alias in enumerate(spec.host_aliases or ()):
        yield from meta.by(names.ip_address, f"{path}.hostAliases[{index}].ip", alias.ip)
        for hostname in alias.hostnames or ():
            yield from meta.by(names.dns_subdomain, f"{path}.hostAliases[{index}].hostnames", hostname)
    if spec.os is not None:
        yield from meta.one_of(f"{path}.os.name", spec.os.name, ("linux", "windows"))


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
            yield from meta.by(check, f"{path}.{wire}", value)
    yield from meta.named(f"{path}.imagePullSecrets", spec.image_pull_secrets)


def _gates(spec: PodSpec, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, gate in enumerate(spec.scheduling_gates or ()):
        at = f"{path}.schedulingGates[{index}]"
        yield from meta.by(names.qualified_name, at, gate.name)
        if gate.name in seen:
            yield duplicate(at, gate.name)
        seen.add(gate.name)
    group, at = spec.scheduling_group, f"{path}.schedulingGroup"
    if group is not None and group.pod_group_name is None:
        yield required(at, "must specify one of: `podGroupName`")
    elif group is not None:
        yield from meta.by(names.dns_subdomain, f"{at}.podGroupName", group.pod_group_name or "")
    for index, readiness in enumerate(spec.readiness_gates or ()):
        yield from meta.by(
            names.qualified_name, f"{path}.readinessGates[{index}].conditionType", readiness.condition_type
        )


def _containers(spec: PodSpec, path: str) -> Iterator[FieldError]:
    volumes = frozenset(volume.name for volume in spec.volumes or ())
    host_network = bool(spec.host_network)
    claims = {claim.name for claim in spec.resource_claims or ()}
    seen: set[str] = set()
    regular = list(_placed(spec.containers, f"{path}.containers"))
    if not regular:
        yield required(f"{path}.containers")
    for init, placed in ((True, _placed(spec.init_containers, f"{path}.initContainers")), (False, iter(regular))):
        for at, container in placed:
            yield from validate_container(container, at, volumes, host_network=host_network, init=init)
            for index, claim in enumerate(container.resources.claims or ()):
                if claim.name not in claims:
                    yield not_found(f"{at}.resources.claims[{index}]", claim.name)
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
