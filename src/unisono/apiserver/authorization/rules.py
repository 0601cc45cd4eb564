"""What a policy rule allows, and whether rules cover others (pure; the algebra of Kubernetes' RBAC)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import msgspec

from unisono.api.groups.access import ClusterRole, PolicyRule
from unisono.api.selecting import selects

ALL = "*"


@dataclass(frozen=True, slots=True)
class Action:
    """What a request wants to do; ``resource`` is empty for a path that names none."""

    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str | None = None
    name: str = ""

    @property
    def combined(self) -> str:
        """``pods`` or ``pods/log``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def allows(rule: PolicyRule, action: Action) -> bool:
    """Whether a rule, in a place where it counts, allows an action."""
    if not _has(rule.verbs, action.verb):
        return False
    if not action.resource:
        return any(_url_covers(url, action.path) for url in rule.non_resource_urls or ())
    if not _has(rule.api_groups, action.group) or not _resource_allowed(rule, action):
        return False
    return not rule.resource_names or action.name in rule.resource_names


def uncovered(owned: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Those single rights among ``wanted`` that no single rule of ``owned`` gives."""
    return [
        right for rule in wanted for right in single_rights(rule) if not any(covers(owner, right) for owner in owned)
    ]


def single_rights(rule: PolicyRule) -> Iterator[PolicyRule]:
    """A rule as rules of one verb on one resource (and one name), or on one path."""
    verbs = rule.verbs or ()
    for group, resource, verb in product(rule.api_groups or (), rule.resources or (), verbs):
        for name in rule.resource_names or (None,):
            names = None if name is None else [name]
            yield PolicyRule(verbs=[verb], api_groups=[group], resources=[resource], resource_names=names)
    for url, verb in product(rule.non_resource_urls or (), verbs):
        yield PolicyRule(verbs=[verb], non_resource_urls=[url])


def covers(owner: PolicyRule, right: PolicyRule) -> bool:
    """Whether a rule gives everything that another gives."""
    if not all(_has(owner.verbs, verb) for verb in right.verbs or ()):
        return False
    if not all(_has(owner.api_groups, group) for group in right.api_groups or ()):
        return False
    if not all(_resource_covers(owner, resource) for resource in right.resources or ()):
        return False
    owned = owner.non_resource_urls or ()
    if not all(any(_url_covers(one, url) for one in owned) for url in right.non_resource_urls or ()):
        return False
    if not owner.resource_names:
        return True
    return bool(right.resource_names) and set(right.resource_names or ()) <= set(owner.resource_names)


def compact(rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Rules of one verb each, joined where they differ in the verb only."""
    joined: dict[tuple[tuple[str, ...], ...], PolicyRule] = {}
    for rule in rules:
        parts = (rule.api_groups, rule.resources, rule.resource_names, rule.non_resource_urls)
        key = tuple(tuple(part or ()) for part in parts)
        found = joined.get(key)
        if found is None:
            joined[key] = PolicyRule(
                verbs=list(rule.verbs or ()),
                api_groups=rule.api_groups,
                resources=rule.resources,
                resource_names=rule.resource_names,
                non_resource_urls=rule.non_resource_urls,
            )
        else:
            found.verbs = list(dict.fromkeys([*(found.verbs or ()), *(rule.verbs or ())]))
    return list(joined.values())


def describe(rule: PolicyRule) -> str:
    """``{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}``."""
    parts = (
        ("APIGroups", rule.api_groups),
        ("Resources", rule.resources),
        ("NonResourceURLs", rule.non_resource_urls),
        ("ResourceNames", rule.resource_names),
        ("Verbs", rule.verbs),
    )
    return "{" + ", ".join(f"{name}:{quoted(values)}" for name, values in parts if values) + "}"


def quoted(values: Iterable[str]) -> str:
    """``["a" "b"]``."""
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def _has(given: Sequence[str] | None, wanted: str) -> bool:
    return given is not None and (ALL in given or wanted in given)


def _resource_allowed(rule: PolicyRule, action: Action) -> bool:
    wildcard = f"*/{action.subresource}" if action.subresource else ALL
    return any(given in (ALL, action.combined, wildcard) for given in rule.resources or ())


def _resource_covers(owner: PolicyRule, resource: str) -> bool:
    if _has(owner.resources, resource):
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in (owner.resources or ())


def _url_covers(owned: str, url: str) -> bool:
    return owned in (ALL, url) or (owned.endswith(ALL) and url.startswith(owned[:-1]))


# Which rules an aggregated ClusterRole has (pure).


def aggregated_rules(role: ClusterRole, roles: Iterable[ClusterRole]) -> list[PolicyRule]:
    """Rules of all other roles that one of the role's selectors selects, each once, by name of their role."""
    selectors = (role.aggregation_rule.cluster_role_selectors if role.aggregation_rule else None) or ()
    found: dict[bytes, PolicyRule] = {}
    for other in sorted(roles, key=lambda one: one.metadata.name):
        if other.metadata.name == role.metadata.name:
            continue
        if any(selects(selector, other.metadata.labels) for selector in selectors):
            found.update((msgspec.json.encode(rule), rule) for rule in other.rules or ())
    return list(found.values())
