"""Service accounts as users: tokens are made for them, and hold as long as the account and what they are bound to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from unisono.api import field_error
from unisono.api.authentication import TokenRequest, TokenRequestStatus
from unisono.api.kind import Kind
from unisono.api.kinds import NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from unisono.api.times import rfc3339
from unisono.apiserver.access.review_kinds import TOKEN_REQUESTS
from unisono.apiserver.access.tokens import ISSUER, Identity, TokenError, TokenSigner
from unisono.apiserver.access.user import AUTHENTICATED, User, service_account_groups, service_account_name
from unisono.apiserver.admission.request import View
from unisono.apiserver.failures import bad_request, conflict, invalid, not_found

API_AUDIENCES = (ISSUER, "https://kubernetes.default.svc", "unisono")
_SHORTEST, _USUAL, _LONGEST = 600, 3600, 1 << 32
_EXTRA = "authentication.kubernetes.io/"
_BOUND: dict[str, Kind[Any]] = {"Pod": PODS, "Secret": SECRETS, "Node": NODES}


class ServiceAccountTokens:
    """Makes and reads tokens.

    Args:
        signer: holds the key.
        view: the accounts, and what tokens are bound to.
        clock: is the signer's own.

    """

    def __init__(self, signer: TokenSigner, view: View) -> None:
        self.signer, self._view = signer, view

    def user(self, token: str, audiences: Sequence[str] = API_AUDIENCES) -> tuple[User, tuple[str, ...]]:
        """The service account behind a token, and for which of ``audiences`` the token is.

        Raises:
            TokenError: the token is not valid, or the account or what the token is bound to is gone.

        """
        identity = self.signer.verify(token, audiences)
        self._check_alive(identity)
        groups = (*service_account_groups(identity.namespace), AUTHENTICATED)
        extra = {f"{_EXTRA}credential-id": (f"JTI={identity.token_id}",)}
        for kind, (name, uid) in identity.bound.items():
            if kind in ("pod", "node"):
                extra |= {f"{_EXTRA}{kind}-name": (name,), f"{_EXTRA}{kind}-uid": (uid,)}
        return User(service_account_name(identity.namespace, identity.name), groups, identity.uid, extra), (
            identity.audiences
        )

    def issue(self, request: TokenRequest, namespace: str, name: str, now: float) -> TokenRequest:
        """Answer a TokenRequest for the account ``name`` in ``namespace``.

        Raises:
            NotFound: the account, or what the token shall be bound to, does not exist.
            Invalid: the life is too short or too long.
            ApiError: 400 or 409 for something that a token cannot be bound to.

        """
        account = self._view.find(SERVICE_ACCOUNTS, name, namespace)
        if account is None:
            raise not_found(SERVICE_ACCOUNTS, name)
        spec = request.spec
        spec.audiences = spec.audiences or [API_AUDIENCES[0]]
        spec.expiration_seconds = _USUAL if spec.expiration_seconds is None else spec.expiration_seconds
        _check_life(spec.expiration_seconds)
        identity = Identity(namespace, name, account.metadata.uid or "", tuple(spec.audiences))
        identity = self._bind(request, identity)
        token = self.signer.sign(identity, spec.expiration_seconds)
        meta = request.metadata
        meta.name, meta.namespace, meta.creation_timestamp = name, namespace, rfc3339(now)
        expires = rfc3339(int(now) + spec.expiration_seconds)
        request.status = TokenRequestStatus(token=token, expiration_timestamp=expires)
        return request

    def _bind(self, request: TokenRequest, identity: Identity) -> Identity:
        ref = request.spec.bound_object_ref
        if ref is None:
            return identity
        kind = _BOUND.get(ref.kind or "") if ref.api_version in (None, "", "v1") else None
        if kind is None:
            raise bad_request(f"cannot bind token to object of type {ref.api_version or 'v1'}, Kind={ref.kind or ''}")
        found = self._view.find(kind, ref.name or "", identity.namespace)
        if found is None:
            raise not_found(kind, ref.name or "")
        if kind is PODS and found.spec.service_account_name != identity.name:
            why = f'cannot bind token for serviceaccount "{identity.name}" to pod running with different '
            raise bad_request(f"{why}serviceaccount name.")
        uid = found.metadata.uid or ""
        if ref.uid and ref.uid != uid:
            why = f"the UID in the bound object reference ({ref.uid}) does not match the UID in record. "
            why += "The object might have been deleted and then recreated"
            raise conflict(kind, ref.name or "", why)
        bound = {(ref.kind or "").lower(): (ref.name or "", uid)}
        node = found.spec.node_name if kind is PODS else None
        if node:
            machine = self._view.find(NODES, node)
            bound["node"] = (node, (machine.metadata.uid or "") if machine else "")
        return replace(identity, bound=bound)

    def _check_alive(self, identity: Identity) -> None:
        account = self._view.find(SERVICE_ACCOUNTS, identity.name, identity.namespace)
        if account is None or account.metadata.deletion_timestamp or account.metadata.uid != identity.uid:
            raise TokenError("the service account is gone")
        for kind, (name, uid) in identity.bound.items():
            if kind == "node" and "pod" in identity.bound:
                continue  # only tells where the pod was
            found = self._view.find(_BOUND[kind.capitalize()], name, identity.namespace)
            if found is None or found.metadata.uid != uid:
                raise TokenError(f"the {kind} that the token is bound to is gone")


def _check_life(seconds: int) -> None:
    problems = []
    if seconds < _SHORTEST:
        problems.append("may not specify a duration less than 10 minutes")
    if seconds > _LONGEST:
        problems.append("may not specify a duration larger than 2^32 seconds")
    if problems:
        errors = [field_error.invalid("spec.expirationSeconds", seconds, each) for each in problems]
        raise invalid(TOKEN_REQUESTS, "", errors)
