"""Roles and their bindings (rbac.authorization.k8s.io/v1)."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object
from unisono.api.fields import Required
from unisono.api.meta import LabelSelector

GROUP = "rbac.authorization.k8s.io"


class PolicyRule(Base):
    """What may be done.

    Attributes:
        verbs: for example ``get``; ``*`` is all of them.
        api_groups: groups of the resources, ``""`` for core, ``*`` for all.
        resources: plural names, ``pods/log`` for a subresource, ``*/scale`` for one of every resource, ``*`` for all.
        resource_names: only objects of these names; without it all.
        non_resource_urls: paths outside of the API, a final ``*`` matches the rest; excludes the other three.

    """

    verbs: list[str] | None = None
    api_groups: list[str] | None = None
    resources: list[str] | None = None
    resource_names: list[str] | None = None
    non_resource_urls: list[str] | None = msgspec.field(default=None, name="nonResourceURLs")


class AggregationRule(Base):
    """The rules of a ClusterRole are those of all ClusterRoles that one of the selectors selects."""

    cluster_role_selectors: list[LabelSelector] | None = None


class Role(Object):
    """Rights within one namespace."""

    rules: list[PolicyRule] | None = None


class ClusterRole(Object):
    """Rights in the whole cluster, or a template of rights for bindings in namespaces."""

    rules: list[PolicyRule] | None = None
    aggregation_rule: AggregationRule | None = None


class Subject(Base):
    """Who gets rights: a User, a Group or a ServiceAccount."""

    kind: Required = ""
    api_group: str | None = None
    name: Required = ""
    namespace: str | None = None


class RoleRef(Base):
    """Which role a binding grants; it never changes."""

    api_group: str | None = None
    kind: Required = ""
    name: Required = ""


class RoleBinding(Object):
    """Grants a Role, or a ClusterRole's rules, within the binding's namespace."""

    subjects: list[Subject] | None = None
    role_ref: RoleRef = msgspec.field(default_factory=RoleRef)


class ClusterRoleBinding(Object):
    """Grants a ClusterRole everywhere."""

    subjects: list[Subject] | None = None
    role_ref: RoleRef = msgspec.field(default_factory=RoleRef)
