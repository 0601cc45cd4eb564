"""Kinds that are answered at once and never stored: reviews of rights and identities, and requests for tokens."""

from __future__ import annotations

from typing import Any

from unisono.api.groups import access as identity
from unisono.api.groups import access as rights
from unisono.api.kind import Kind

_AUTHORIZATION, _AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"

TOKEN_REQUESTS: Kind[identity.TokenRequest] = Kind(
    _AUTHENTICATION, "v1", "TokenRequest", "tokenrequests", identity.TokenRequest
)
TOKEN_REVIEWS: Kind[identity.TokenReview] = Kind(
    _AUTHENTICATION, "v1", "TokenReview", "tokenreviews", identity.TokenReview, False
)
SELF_SUBJECT_REVIEWS: Kind[identity.SelfSubjectReview] = Kind(
    _AUTHENTICATION, "v1", "SelfSubjectReview", "selfsubjectreviews", identity.SelfSubjectReview, False
)
LOCAL_SUBJECT_ACCESS_REVIEWS: Kind[rights.LocalSubjectAccessReview] = Kind(
    _AUTHORIZATION, "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", rights.LocalSubjectAccessReview
)
SELF_SUBJECT_ACCESS_REVIEWS: Kind[rights.SelfSubjectAccessReview] = Kind(
    _AUTHORIZATION, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", rights.SelfSubjectAccessReview, False
)
SELF_SUBJECT_RULES_REVIEWS: Kind[rights.SelfSubjectRulesReview] = Kind(
    _AUTHORIZATION, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", rights.SelfSubjectRulesReview, False
)
SUBJECT_ACCESS_REVIEWS: Kind[rights.SubjectAccessReview] = Kind(
    _AUTHORIZATION, "v1", "SubjectAccessReview", "subjectaccessreviews", rights.SubjectAccessReview, False
)
REVIEW_KINDS: tuple[Kind[Any], ...] = (
    TOKEN_REVIEWS,
    SELF_SUBJECT_REVIEWS,
    LOCAL_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_RULES_REVIEWS,
    SUBJECT_ACCESS_REVIEWS,
)
