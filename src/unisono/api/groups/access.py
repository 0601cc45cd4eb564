"""Rights and identities: roles and bindings, and reviews that are answered at once and never stored."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, LabelSelector, Object, Required, Time

# Roles and their bindings (rbac.authorization.k8s.io/v1).

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


# Questions about rights (authorization.k8s.io/v1): answered at once, never stored.


class ResourceAttributes(Base):
    """A request for a resource; ``*`` stands for all, and an empty namespace for all namespaces."""

    namespace: str | None = None
    verb: str | None = None
    group: str | None = None
    version: str | None = None
    resource: str | None = None
    subresource: str | None = None
    name: str | None = None


class NonResourceAttributes(Base):
    """A request for a path outside of the API."""

    path: str | None = None
    verb: str | None = None


class SelfSubjectAccessReviewSpec(Base):
    """What the asking user wants to do; exactly one of both."""

    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None


class SubjectAccessReviewSpec(Base):
    """What a user or group wants to do."""

    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None
    user: str | None = None
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None
    uid: str | None = None


class SubjectAccessReviewStatus(Base):
    """The answer, with the binding that allows it."""

    # Always written, so that a plain "no" is there to be read.
    allowed: bool | None = None
    denied: bool | None = None
    reason: str | None = None
    evaluation_error: str | None = None


class SelfSubjectAccessReview(Object):
    """May I do this? (``kubectl auth can-i``)."""

    spec: SelfSubjectAccessReviewSpec = msgspec.field(default_factory=SelfSubjectAccessReviewSpec)
    status: SubjectAccessReviewStatus = msgspec.field(default_factory=SubjectAccessReviewStatus)


class SubjectAccessReview(Object):
    """May that user do this?"""

    spec: SubjectAccessReviewSpec = msgspec.field(default_factory=SubjectAccessReviewSpec)
    status: SubjectAccessReviewStatus = msgspec.field(default_factory=SubjectAccessReviewStatus)


class LocalSubjectAccessReview(Object):
    """May that user do this in this namespace?"""

    spec: SubjectAccessReviewSpec = msgspec.field(default_factory=SubjectAccessReviewSpec)
    status: SubjectAccessReviewStatus = msgspec.field(default_factory=SubjectAccessReviewStatus)


class SelfSubjectRulesReviewSpec(Base):
    """The namespace that the question is about."""

    namespace: str | None = None


class ResourceRule(Base):
    """A right to resources."""

    verbs: list[str] | None = None
    api_groups: list[str] | None = None
    resources: list[str] | None = None
    resource_names: list[str] | None = None


class NonResourceRule(Base):
    """A right to paths."""

    verbs: list[str] | None = None
    non_resource_urls: list[str] | None = msgspec.field(default=None, name="nonResourceURLs")


class SubjectRulesReviewStatus(Base):
    """All rights that are known."""

    resource_rules: list[ResourceRule] | None = None
    non_resource_rules: list[NonResourceRule] | None = None
    incomplete: bool | None = None
    evaluation_error: str | None = None


class SelfSubjectRulesReview(Object):
    """What may I do? (``kubectl auth can-i --list``)."""

    spec: SelfSubjectRulesReviewSpec = msgspec.field(default_factory=SelfSubjectRulesReviewSpec)
    status: SubjectRulesReviewStatus = msgspec.field(default_factory=SubjectRulesReviewStatus)


# Tokens and identities (authentication.k8s.io/v1): answered at once, never stored.


class UserInfo(Base):
    """Who a user is."""

    username: str | None = None
    uid: str | None = None
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class SelfSubjectReviewStatus(Base):
    """The asking user."""

    user_info: UserInfo = msgspec.field(default_factory=UserInfo)


class SelfSubjectReview(Object):
    """Who am I? (``kubectl auth whoami``)."""

    status: SelfSubjectReviewStatus = msgspec.field(default_factory=SelfSubjectReviewStatus)


class BoundObjectReference(Base):
    """The Pod or Secret with whose end a token ends."""

    kind: str | None = None
    api_version: str | None = None
    name: str | None = None
    uid: str | None = None


class TokenRequestSpec(Base):
    """What the token is for: its audiences, its life in seconds, and what it is bound to."""

    audiences: list[str] | None = None
    expiration_seconds: int | None = None
    bound_object_ref: BoundObjectReference | None = None


class TokenRequestStatus(Base):
    """The token."""

    token: str | None = None
    expiration_timestamp: Time | None = None


class TokenRequest(Object):
    """Asks for a token of a service account (``kubectl create token``)."""

    spec: TokenRequestSpec = msgspec.field(default_factory=TokenRequestSpec)
    status: TokenRequestStatus = msgspec.field(default_factory=TokenRequestStatus)


class TokenReviewSpec(Base):
    """The token in question, and for whom it must be."""

    token: str | None = None
    audiences: list[str] | None = None


class TokenReviewStatus(Base):
    """Whose token it is."""

    authenticated: bool | None = None
    user: UserInfo | None = None
    audiences: list[str] | None = None
    error: str | None = None


class TokenReview(Object):
    """Whose token is this?"""

    spec: TokenReviewSpec = msgspec.field(default_factory=TokenReviewSpec)
    status: TokenReviewStatus = msgspec.field(default_factory=TokenReviewStatus)
