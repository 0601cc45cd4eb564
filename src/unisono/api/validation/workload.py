"""Rules of Workloads, Kubernetes' PodGroups and groups of them (scheduling.k8s.io), as Kubernetes validates them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from unisono.api import names
from unisono.api.field_error import FieldError, duplicate, invalid, required
from unisono.api.groups.workload import (
    DISRUPTION_MODES,
    MOST_LEVELS,
    CompositeGangSchedulingPolicy,
    CompositePodGroup,
    CompositePodGroupSchedulingPolicy,
    CompositePodGroupSpec,
    CompositePodGroupTemplate,
    GangSchedulingPolicy,
    InnerCompositeTemplate,
    InnermostCompositeTemplate,
    JobSchedulingConfiguration,
    PodGroupResourceClaim,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    PodGroupTemplate,
    Workload,
    WorkloadPodGroup,
    WorkloadPodGroupSpec,
    WorkloadReference,
    WorkloadSpec,
)
from unisono.api.validation.meta import at_least, by, one_of

_MOST_TEMPLATES = 8
_MOST_CLAIMS = 4
_HIGHEST_PRIORITY = 1_000_000_000
_IMMUTABLE = "field is immutable"
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_Composite = CompositePodGroupTemplate | InnerCompositeTemplate | InnermostCompositeTemplate
_Template = PodGroupTemplate | _Composite
_Single = PodGroupTemplate | WorkloadPodGroupSpec
_Policies = TypeVar("_Policies", PodGroupTemplate, WorkloadPodGroupSpec)


def validate_workload(workload: Workload, old: Workload | None) -> Iterator[FieldError]:
    """A tree of one to eight templates a list, of different names; only minimums and an absent reference change."""
    spec = workload.spec
    reference = spec.controller_ref
    if reference is not None:
        if reference.api_group:
            yield from by(names.dns_subdomain, "spec.controllerRef.apiGroup", reference.api_group)
        for field, value in (("kind", reference.kind), ("name", reference.name)):
            if not value:
                yield required(f"spec.controllerRef.{field}")
    yield from _tree(spec)
    if old is not None:
        if old.spec.controller_ref is not None and old.spec.controller_ref != reference:
            yield invalid("spec.controllerRef", None, _IMMUTABLE)
        before = [_without_minimum(template) for template in old.spec.pod_group_templates or []]
        if before != [_without_minimum(template) for template in spec.pod_group_templates or []]:
            yield invalid("spec.podGroupTemplates", None, f"{_IMMUTABLE}, but for minCount of a gang")
        groups = [_without_minimums(template) for template in old.spec.composite_pod_group_templates or []]
        if groups != [_without_minimums(template) for template in spec.composite_pod_group_templates or []]:
            detail = f"{_IMMUTABLE}, but for minCount and minGroupCount of gangs"
            yield invalid("spec.compositePodGroupTemplates", None, detail)


def validate_native_pod_group(group: WorkloadPodGroup, old: WorkloadPodGroup | None) -> Iterator[FieldError]:
    """A policy, at most one topology constraint, and a spec of which nothing changes but the minimum of a gang."""
    spec = group.spec
    yield from _parent(spec.parent_composite_pod_group_name)
    yield from _origin(spec.workload_ref)
    reference = spec.pod_group_template_ref
    if reference is not None:
        at = "spec.podGroupTemplateRef"
        if reference.workload is None:
            yield required(at, "must specify one of: `workload`")
        else:
            yield from _needed(f"{at}.workload.workloadName", reference.workload.workload_name, names.dns_subdomain)
            template_name = reference.workload.pod_group_template_name
            yield from _needed(f"{at}.workload.podGroupTemplateName", template_name, names.dns_label)
    yield from _policies(spec, "spec")
    if old is not None and _without_minimum(old.spec) != _without_minimum(spec):
        yield invalid("spec", None, f"{_IMMUTABLE}, but for schedulingPolicy.gang.minCount")


def validate_composite_pod_group(group: CompositePodGroup, old: CompositePodGroup | None) -> Iterator[FieldError]:
    """A policy, at most one topology constraint, the template that it was made after; its spec is fixed."""
    spec = group.spec
    yield from _parent(spec.parent_composite_pod_group_name)
    if spec.workload_ref is None:
        yield required("spec.workloadRef")
    yield from _origin(spec.workload_ref)
    yield from _group_policies(spec, "spec")
    if old is not None and old.spec != spec:
        yield invalid("spec", None, _IMMUTABLE)


def validate_job_scheduling(
    scheduling: JobSchedulingConfiguration | None, pods: int, path: str
) -> Iterator[FieldError]:
    """``spec.scheduling`` of a Job that has at most ``pods`` at a time; none where it is paused."""
    if scheduling is None:
        return
    policy = scheduling.scheduling_policy
    if policy is not None:
        yield from _one_policy(policy, f"{path}.schedulingPolicy")
        least = policy.gang.min_count if policy.gang is not None else None
        yield from at_least(f"{path}.schedulingPolicy.gang.minCount", least, 1)
        if least is not None and least > pods > 0:
            detail = f"must be less than or equal to {pods}, as parallelism and completions allow no more pods at once"
            yield invalid(f"{path}.schedulingPolicy.gang.minCount", least, detail)
    yield from _constraints(scheduling.scheduling_constraints, f"{path}.schedulingConstraints")
    yield from _claims(scheduling.resource_claims, f"{path}.resourceClaims")
    yield from _mode(scheduling.disruption_mode, f"{path}.disruptionMode")


def without_job_minimum(scheduling: JobSchedulingConfiguration | None) -> JobSchedulingConfiguration | None:
    """What is fixed of ``spec.scheduling`` of a Job: all but the minimum of a gang."""
    policy = scheduling.scheduling_policy if scheduling is not None else None
    if scheduling is None or policy is None or policy.gang is None:
        return scheduling
    return replace(scheduling, scheduling_policy=replace(policy, gang=GangSchedulingPolicy()))


# The templates of a Workload.


def _tree(spec: WorkloadSpec) -> Iterator[FieldError]:
    pods, groups = spec.pod_group_templates or [], spec.composite_pod_group_templates or []
    one_of_both = "must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`"
    if not pods and not groups:
        yield required("spec", one_of_both)
    elif pods and groups:
        yield invalid("spec", "{podGroupTemplates, compositePodGroupTemplates}", one_of_both)
    seen: set[str] = set()
    priorities: set[tuple[str | None, int | None]] = set()
    yield from _templates(pods, "spec.podGroupTemplates", seen, priorities)
    yield from _composites(groups, "spec.compositePodGroupTemplates", seen, priorities, 1)
    if len(priorities) > 1:
        yield invalid("spec", None, "all priority and priorityClassName values must be identical")


def _templates(
    templates: Sequence[PodGroupTemplate], path: str, seen: set[str], told: set[tuple[str | None, int | None]]
) -> Iterator[FieldError]:
    yield from _at_most(path, templates, _MOST_TEMPLATES)
    for index, template in enumerate(templates[:_MOST_TEMPLATES]):
        yield from _name(f"{path}[{index}].name", template.name, seen)
        yield from _policies(template, f"{path}[{index}]")
        told.add((template.priority_class_name or None, template.priority))


def _composites(
    templates: Sequence[_Composite], path: str, seen: set[str], told: set[tuple[str | None, int | None]], level: int
) -> Iterator[FieldError]:
    yield from _at_most(path, templates, _MOST_TEMPLATES)
    for index, template in enumerate(templates[:_MOST_TEMPLATES]):
        at = f"{path}[{index}]"
        yield from _name(f"{at}.name", template.name, seen)
        yield from _group_policies(template, at)
        told.add((template.priority_class_name or None, template.priority))
        pods, groups = template.pod_group_templates or [], template.composite_pod_group_templates or []
        if not pods and not groups:
            detail = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
            yield invalid(at, template.name, detail)
        yield from _templates(pods, f"{at}.podGroupTemplates", seen, told)
        below = f"{at}.compositePodGroupTemplates"
        if groups and level + 1 >= MOST_LEVELS:
            yield invalid(below, None, f"maximum template hierarchy depth is {MOST_LEVELS}")
        else:
            yield from _composites(groups, below, seen, told, level + 1)


# What is fixed.


def _without_minimum(spec: _Policies) -> _Policies:
    policy = spec.scheduling_policy
    if policy.gang is None:
        return spec
    return replace(spec, scheduling_policy=replace(policy, gang=GangSchedulingPolicy()))


def _without_minimums(template: Any) -> Any:
    """The same of a template of groups, and of all below it."""
    policy = template.scheduling_policy
    if policy.gang is not None:
        policy = replace(policy, gang=CompositeGangSchedulingPolicy())
    pods = [_without_minimum(each) for each in template.pod_group_templates or ()]
    groups = template.composite_pod_group_templates or ()
    # Deeper ones than there may be have no shape.
    groups = [each if isinstance(each, dict) else _without_minimums(each) for each in groups]
    return replace(
        template,
        scheduling_policy=policy,
        pod_group_templates=pods or None,
        composite_pod_group_templates=groups or None,
    )


# Parts of one group.


def _parent(name: str | None) -> Iterator[FieldError]:
    if name is not None:
        yield from _needed("spec.parentCompositePodGroupName", name, names.dns_subdomain)


def _origin(reference: WorkloadReference | None) -> Iterator[FieldError]:
    if reference is not None:
        yield from _needed("spec.workloadRef.workloadName", reference.workload_name, names.dns_subdomain)
        yield from _needed("spec.workloadRef.templateName", reference.template_name, names.dns_label)


def _policies(spec: _Single, path: str) -> Iterator[FieldError]:
    policy, at = spec.scheduling_policy, f"{path}.schedulingPolicy"
    yield from _one_policy(policy, at)
    if policy.gang is not None:
        yield from _least(f"{at}.gang.minCount", policy.gang.min_count)
    yield from _claims(spec.resource_claims, f"{path}.resourceClaims")
    yield from _common(spec, path)


def _group_policies(spec: _Composite | CompositePodGroupSpec, path: str) -> Iterator[FieldError]:
    policy, at = spec.scheduling_policy, f"{path}.schedulingPolicy"
    yield from _one_policy(policy, at)
    if policy.gang is not None:
        yield from _least(f"{at}.gang.minGroupCount", policy.gang.min_group_count)
    yield from _common(spec, path)


def _common(spec: _Template | WorkloadPodGroupSpec | CompositePodGroupSpec, path: str) -> Iterator[FieldError]:
    yield from _constraints(spec.scheduling_constraints, f"{path}.schedulingConstraints")
    yield from _mode(spec.disruption_mode, f"{path}.disruptionMode")
    yield from one_of(f"{path}.preemptionPolicy", spec.preemption_policy, _PREEMPTION_POLICIES)
    if spec.priority_class_name:
        yield from by(names.dns_subdomain, f"{path}.priorityClassName", spec.priority_class_name)
    if spec.priority is not None and spec.priority > _HIGHEST_PRIORITY:
        yield invalid(f"{path}.priority", spec.priority, f"must be less than or equal to {_HIGHEST_PRIORITY}")


def _one_policy(
    policy: PodGroupSchedulingPolicy | CompositePodGroupSchedulingPolicy, path: str
) -> Iterator[FieldError]:
    if (policy.basic is None) == (policy.gang is None):
        detail = "must specify one of: `basic`, `gang`"
        yield required(path, detail) if policy.gang is None else invalid(path, "{basic, gang}", detail)


def _least(path: str, value: int | None) -> Iterator[FieldError]:
    if value is None:
        yield required(path)
    yield from at_least(path, value, 1)


def _constraints(constraints: PodGroupSchedulingConstraints | None, path: str) -> Iterator[FieldError]:
    topology = (constraints.topology if constraints is not None else None) or []
    yield from _at_most(f"{path}.topology", topology, 1)
    for index, constraint in enumerate(topology[:1]):
        yield from _needed(f"{path}.topology[{index}].key", constraint.key, names.qualified_name)


def _mode(mode: Any, path: str) -> Iterator[FieldError]:
    if isinstance(mode, str):
        yield from one_of(path, mode, tuple(each for each in DISRUPTION_MODES if isinstance(each, str)))
    elif mode is not None and mode not in DISRUPTION_MODES:
        yield invalid(path, None, "must be one of: `{single: {}}`, `{all: {}}`")


def _claims(claims: Sequence[PodGroupResourceClaim] | None, path: str) -> Iterator[FieldError]:
    yield from _at_most(path, claims or (), _MOST_CLAIMS)
    seen: set[str] = set()
    for index, claim in enumerate((claims or ())[:_MOST_CLAIMS]):
        at = f"{path}[{index}]"
        yield from _name(f"{at}.name", claim.name, seen)
        if (claim.resource_claim_name is None) == (claim.resource_claim_template_name is None):
            yield invalid(at, claim.name, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")


def _name(path: str, value: str, seen: set[str]) -> Iterator[FieldError]:
    yield from _needed(path, value, names.dns_label)
    if value and value in seen:
        yield duplicate(path, value)
    seen.add(value)


def _needed(path: str, value: str, check: Callable[[str], Any]) -> Iterator[FieldError]:
    if value:
        yield from by(check, path, value)
    else:
        yield required(path)


def _at_most(path: str, items: Sequence[Any], most: int) -> Iterator[FieldError]:
    if len(items) > most:
        yield FieldError(path, "FieldValueTooMany", len(items), f"must have at most {most} items")
