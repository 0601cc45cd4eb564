"""Questions about rights (authorization.k8s.io/v1): answered at once, never stored."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object


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
