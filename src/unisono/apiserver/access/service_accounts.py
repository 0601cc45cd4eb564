"""Service accounts as users: their signed tokens, and for how long these hold."""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from unisono.api import field_error
from unisono.api.groups.access import TokenRequest, TokenRequestStatus
from unisono.api.kind import Kind
from unisono.api.kinds import NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from unisono.api.times import rfc3339
from unisono.apiserver.access.files import private_directory, write_private
from unisono.apiserver.access.user import (
    AUTHENTICATED,
    TOKEN_REQUESTS,
    User,
    service_account_groups,
    service_account_name,
)
from unisono.apiserver.admission.request import View
from unisono.apiserver.failures import bad_request, conflict, invalid, not_found
from unisono.errors import ConfigError

# Tokens of service accounts: signed JWTs (ES256) with Kubernetes' claims, and the documents to check them by.

ISSUER = "https://kubernetes.default.svc.cluster.local"
_CLAIMS = "kubernetes.io"
_ALGORITHM = "ES256"
# Clocks of two machines may differ by this much.
_LEEWAY = 10


class TokenError(Exception):
    """A token that is not ours, is broken, or whose time is over."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a valid token says.

    Attributes:
        namespace: of the service account.
        name: of the service account.
        uid: of the service account.
        audiences: for whom the token is.
        bound: kind (``pod``, ``secret``, ``node``) to name and uid of what the token is bound to.
        token_id: the token's own id.
    """

    namespace: str
    name: str
    uid: str
    audiences: tuple[str, ...]
    bound: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    token_id: str = ""


class TokenSigner:
    """Signs and verifies with one key, which is kept in ``directory`` with mode 0600.

    Args:
        directory: where the key is, or is made.
        clock: Unix seconds.
    """

    def __init__(self, directory: Path, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._key = _load(private_directory(directory) / "service-account.key")
        self._public = self._key.public_key()
        encoded = self._public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self._key_id = base64.urlsafe_b64encode(hashlib.sha256(encoded).digest()).rstrip(b"=").decode()

    def sign(self, identity: Identity, seconds: int) -> str:
        """A token that is valid from now on for ``seconds``."""
        now = int(self._clock())
        own: dict[str, Any] = {
            "namespace": identity.namespace,
            "serviceaccount": {"name": identity.name, "uid": identity.uid},
        }
        own.update({kind: {"name": name, "uid": uid} for kind, (name, uid) in identity.bound.items()})
        claims = {
            "aud": list(identity.audiences),
            "exp": now + seconds,
            "iat": now,
            "iss": ISSUER,
            "jti": identity.token_id or str(uuid.uuid4()),
            _CLAIMS: own,
            "nbf": now,
            "sub": f"system:serviceaccount:{identity.namespace}:{identity.name}",
        }
        token: str = _jwt().encode(claims, self._key, _ALGORITHM, headers={"kid": self._key_id, "typ": None})
        return token

    def verify(self, token: str, audiences: Sequence[str]) -> Identity:
        """What the token says, when it is ours, valid now, and for one of ``audiences``.

        Raises:
            TokenError: with what is wrong; the text never holds the token.
        """
        claims = self._checked(token)
        now = self._clock()
        if not isinstance(claims.get("exp"), int) or now > claims["exp"] + _LEEWAY:
            raise TokenError("the token has expired")
        if not isinstance(claims.get("nbf"), int) or now < claims["nbf"] - _LEEWAY:
            raise TokenError("the token is not valid yet")
        given = claims.get("aud")
        allowed = tuple(one for one in given if one in audiences) if isinstance(given, list) else ()
        if not allowed:
            raise TokenError(f"the token is not for any of the audiences {list(audiences)}")
        return _identity(claims, allowed)

    def issued(self, token: str) -> bool:
        """Whether a token claims to be one of these: three parts, and this issuer."""
        jwt = _jwt()
        # PyJWT lets through that half characters cannot be encoded.
        try:
            return bool(jwt.decode(token, options={"verify_signature": False}).get("iss") == ISSUER)
        except (jwt.InvalidTokenError, UnicodeEncodeError):
            return False

    def configuration(self, url: str) -> dict[str, Any]:
        """The document of ``/.well-known/openid-configuration`` for a server at ``url``."""
        return {
            "issuer": ISSUER,
            "jwks_uri": f"{url}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [_ALGORITHM],
        }

    def keys(self) -> dict[str, Any]:
        """The document of ``/openid/v1/jwks``."""
        from jwt.algorithms import ECAlgorithm

        own = {"use": "sig", "kid": self._key_id, "alg": _ALGORITHM}
        return {"keys": [own | ECAlgorithm.to_jwk(self._public, as_dict=True)]}

    def _checked(self, token: str) -> dict[str, Any]:
        jwt = _jwt()
        try:
            if jwt.get_unverified_header(token).get("kid") != self._key_id:
                raise TokenError("the token is signed with an unknown key")
            # Only this algorithm: a token must not choose how it is checked. Times are checked by the server's clock.
            times = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_aud": False}
            claims: dict[str, Any] = jwt.decode(token, self._public, [_ALGORITHM], times, issuer=ISSUER)
            return claims
        except (jwt.InvalidTokenError, UnicodeEncodeError) as error:
            raise TokenError(f"the token cannot be read or was changed: {error}") from None


def _jwt() -> ModuleType:
    """PyJWT, loaded when the first token is made or read: a server starts without it."""
    import jwt

    return jwt


def _identity(claims: dict[str, Any], audiences: tuple[str, ...]) -> Identity:
    own = claims[_CLAIMS]
    account = own["serviceaccount"]
    bound = {kind: (own[kind]["name"], own[kind]["uid"]) for kind in ("pod", "secret", "node") if kind in own}
    return Identity(own["namespace"], account["name"], account["uid"], audiences, bound, claims.get("jti", ""))


def _load(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
            raise ValueError("not a P-256 key")
        return key
    except FileNotFoundError:
        made = ec.generate_private_key(ec.SECP256R1())
        form = serialization.PrivateFormat.PKCS8
        write_private(path, made.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        return made
    except (ValueError, TypeError) as error:
        why = f"unreadable key ({error}); remove it to have a new one made, which ends all tokens of service accounts"
        raise ConfigError(why, file=str(path)) from error


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
        bound_object = self._view.find(kind, ref.name or "", identity.namespace)
        if bound_object is None:
            raise not_found(kind, ref.name or "")
        if kind is PODS and bound_object.spec.service_account_name != identity.name:
            why = f'cannot bind token for serviceaccount "{identity.name}" to pod running with different '
            raise bad_request(f"{why}serviceaccount name.")
        uid = bound_object.metadata.uid or ""
        if ref.uid and ref.uid != uid:
            why = f"the UID in the bound object reference ({ref.uid}) does not match the UID in record. "
            why += "The object might have been deleted and then recreated"
            raise conflict(kind, ref.name or "", why)
        bound = {(ref.kind or "").lower(): (ref.name or "", uid)}
        node = bound_object.spec.node_name if kind is PODS else None
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
            bound_object = self._view.find(_BOUND[kind.capitalize()], name, identity.namespace)
            if bound_object is None or bound_object.metadata.uid != uid:
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
