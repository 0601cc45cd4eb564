"""Tokens and identities (authentication.k8s.io/v1): answered at once, never stored."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object
from unisono.api.fields import Time


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
