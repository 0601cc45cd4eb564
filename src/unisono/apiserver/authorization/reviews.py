"""Answers to questions about rights and identities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unisono.api import field_error
from unisono.api.base import Object, ObjectMeta
from unisono.api.field_error import FieldError
from unisono.api.groups.access import (
    LocalSubjectAccessReview,
    NonResourceAttributes,
    NonResourceRule,
    ResourceAttributes,
    ResourceRule,
    SelfSubjectAccessReview,
    SelfSubjectReview,
    SelfSubjectReviewStatus,
    SelfSubjectRulesReview,
    SelfSubjectRulesReviewSpec,
    SubjectAccessReview,
    SubjectAccessReviewStatus,
    SubjectRulesReviewStatus,
    TokenReview,
    UserInfo,
)
from unisono.api.kind import Kind
from unisono.apiserver.access.user import User
from unisono.apiserver.authorization.authorizer import Action, Authorizer
from unisono.apiserver.failures import bad_request, invalid

TokenUser = Callable[[str, list[str]], tuple[User, tuple[str, ...]] | str]


class Reviews:
    """Answers a review with itself, its status filled in.

    Args:
        authorizer: knows the rights.
        token_user: user and audiences of a bearer token that is for one of the given audiences (none: for this
            server), or what is wrong with it.

    """

    def __init__(self, authorizer: Authorizer, token_user: TokenUser) -> None:
        self._authorizer, self._token_user = authorizer, token_user
        self._answers: dict[type[Object], Callable[[Any, User], None]] = {
            SelfSubjectAccessReview: self._self_access,
            SubjectAccessReview: self._access,
            LocalSubjectAccessReview: self._access,
            SelfSubjectRulesReview: self._rules,
            SelfSubjectReview: self._identity,
            TokenReview: self._token,
        }

    def answer(self, kind: Kind[Any], review: Any, user: User, namespace: str | None, now: str) -> Any:
        """Fill in the status.

        Args:
            kind: of the review.
            review: what was sent.
            user: who asks.
            namespace: of the URL.
            now: RFC 3339.

        Raises:
            Invalid: the question is incomplete or contradicts itself.
            ApiError: 400 for one that cannot be answered.

        """
        if isinstance(review, LocalSubjectAccessReview):
            review.metadata.namespace = review.metadata.namespace or namespace
            if review.metadata.namespace != namespace:
                raise bad_request(f"spec.resourceAttributes.namespace must match namespace: {namespace}")
        problems = _problems(review)
        if problems:
            raise invalid(kind, "", problems)
        self._answers[type(review)](review, user)
        if isinstance(review, SelfSubjectReview):
            # A real server answers with a review of its own here, and with what was sent elsewhere.
            review.metadata = ObjectMeta(creation_timestamp=now)
        return review

    def _self_access(self, review: SelfSubjectAccessReview, user: User) -> None:
        review.status = self._decided(review, user)

    def _access(self, review: SubjectAccessReview | LocalSubjectAccessReview, _: User) -> None:
        spec = review.spec
        review.status = self._decided(review, User(spec.user or "", tuple(spec.groups or ())))

    def _decided(self, review: Any, user: User) -> SubjectAccessReviewStatus:
        decision = self._authorizer.decide(user, _action(review.spec))
        return SubjectAccessReviewStatus(allowed=decision.allowed, reason=decision.reason or None)

    def _rules(self, review: SelfSubjectRulesReview, user: User) -> None:
        if not review.spec.namespace:
            raise bad_request("no namespace on request")
        rules = self._authorizer.rules(user, review.spec.namespace)
        review.status = SubjectRulesReviewStatus(
            resource_rules=[
                ResourceRule(
                    verbs=rule.verbs,
                    api_groups=rule.api_groups,
                    resources=rule.resources,
                    resource_names=rule.resource_names,
                )
                for rule in rules
                if rule.resources
            ],
            non_resource_rules=[
                NonResourceRule(verbs=rule.verbs, non_resource_urls=rule.non_resource_urls)
                for rule in rules
                if rule.non_resource_urls
            ],
            incomplete=False,
        )
        # A real server answers without the question.
        review.metadata, review.spec = ObjectMeta(), SelfSubjectRulesReviewSpec()

    def _identity(self, review: SelfSubjectReview, user: User) -> None:
        review.status = SelfSubjectReviewStatus(user_info=user_info(user))

    def _token(self, review: TokenReview, _: User) -> None:
        token = review.spec.token
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        found = self._token_user(token, review.spec.audiences or [])
        if isinstance(found, str):
            review.status.error = found
            return
        user, audiences = found
        review.status.authenticated, review.status.user = True, user_info(user)
        review.status.audiences = list(audiences)


def user_info(user: User) -> UserInfo:
    """A user as reviews show it."""
    extra = {key: list(values) for key, values in user.extra.items()}
    return UserInfo(username=user.name, uid=user.uid or None, groups=list(user.groups), extra=extra or None)


def _problems(review: Any) -> list[FieldError]:
    if not isinstance(review, SelfSubjectAccessReview | SubjectAccessReview | LocalSubjectAccessReview):
        return []
    spec, errors = review.spec, []
    if spec.resource_attributes is not None and spec.non_resource_attributes is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        errors.append(field_error.invalid("spec.nonResourceAttributes", spec.non_resource_attributes, detail))
    if spec.resource_attributes is None and spec.non_resource_attributes is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(field_error.invalid("spec.resourceAttributes", None, detail))
    named = isinstance(review, SelfSubjectAccessReview) or review.spec.user or review.spec.groups
    if not named:
        detail = "at least one of user or group must be specified"
        errors.append(field_error.invalid("spec.user", "", detail))
    if isinstance(review, LocalSubjectAccessReview):
        errors += _local_problems(review)
    return errors


def _local_problems(review: LocalSubjectAccessReview) -> list[FieldError]:
    spec, errors = review.spec, []
    if spec.resource_attributes is not None and spec.resource_attributes.namespace != review.metadata.namespace:
        where = spec.resource_attributes.namespace or ""
        path, detail = "spec.resourceAttributes.namespace", "must match metadata.namespace"
        errors.append(field_error.invalid(path, where, detail))
    if spec.non_resource_attributes is not None:
        detail = "disallowed on this kind of request"
        errors.append(field_error.invalid("spec.nonResourceAttributes", spec.non_resource_attributes, detail))
    return errors


def _action(spec: Any) -> Action:
    resource: ResourceAttributes | None = spec.resource_attributes
    if resource is not None:
        return Action(
            resource.verb or "",
            group=resource.group or "",
            resource=resource.resource or "",
            subresource=resource.subresource or "",
            namespace=resource.namespace or None,
            name=resource.name or "",
        )
    path: NonResourceAttributes = spec.non_resource_attributes or NonResourceAttributes()
    return Action(path.verb or "", path=path.path or "")
