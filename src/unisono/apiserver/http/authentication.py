"""Who is asking: authentication by certificate, by a fixed token, or by a service account's token."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from unisono.apiserver.access.service_accounts import API_AUDIENCES, ServiceAccountTokens
from unisono.apiserver.access.tokens import TokenError
from unisono.apiserver.access.user import ANONYMOUS, AUTHENTICATED, User
from unisono.apiserver.http.status import unauthorized


class Authenticator:
    """Finds the user of a request.

    Args:
        tokens: bearer token to user. Only digests are kept, so that no lookup time depends on a token's text.
        accounts: reads the tokens of service accounts; None where there are none.

    """

    def __init__(self, tokens: Mapping[str, User], accounts: ServiceAccountTokens | None = None) -> None:
        self._users = {_digest(token): user for token, user in tokens.items()}
        self._accounts = accounts

    def authenticate(self, authorization: str | None, certificate: Mapping[str, Any] | None) -> User:
        """The user behind an ``Authorization`` header or a verified peer certificate; certificates win.

        Raises:
            ApiError: 401 when credentials are given that are not known.

        """
        user = _certificate_user(certificate) if certificate else None
        if user is not None:
            return user
        if not authorization:
            return ANONYMOUS
        scheme, _, token = authorization.partition(" ")
        found = self.token_user(token.strip()) if scheme.lower() == "bearer" else ""
        if isinstance(found, str):
            raise unauthorized()
        return found[0]

    def token_user(self, token: str, audiences: Sequence[str] = ()) -> tuple[User, tuple[str, ...]] | str:
        """Whose a bearer token is and for which audiences, or what is wrong with it.

        Args:
            token: as the client sent it.
            audiences: for one of which it must be; none: for this server.

        """
        wanted = tuple(audiences) or API_AUDIENCES
        known = self._users.get(_digest(token))
        if known is not None:
            # Fixed tokens are for this server alone.
            served = tuple(one for one in wanted if one in API_AUDIENCES)
            return (known, served) if served else "the token is not for any of the audiences"
        if self._accounts is None or not self._accounts.signer.issued(token):
            return "the token is unknown"
        try:
            return self._accounts.user(token, wanted)
        except TokenError as error:
            return str(error)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _certificate_user(certificate: Mapping[str, Any]) -> User | None:
    name, groups = "", []
    for part in certificate.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                name = value
            elif key == "organizationName":
                groups.append(value)
    return User(name, (*groups, AUTHENTICATED)) if name else None
