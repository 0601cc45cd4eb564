"""Tokens of service accounts: signed, checked, bound, ended; and never in a log."""

from __future__ import annotations

import base64
import json
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends import DELETE, Wall, WriteOptions, opened, pod_body, settle
from support.serving import WebClient, serving
from unisono.api.kinds import PODS, SERVICE_ACCOUNTS
from unisono.apiserver.access.service_accounts import ISSUER, Identity, TokenError, TokenSigner
from unisono.errors import ConfigError

ROBOT = Identity("ns", "robot", "uid-1", (ISSUER,), {"pod": ("p", "uid-2")}, "id-1")
TOKEN = "/api/v1/namespaces/default/serviceaccounts/default/token"
REQUEST: dict[str, Any] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}


def changed(token: str, part: int, **values: Any) -> str:
    parts = token.split(".")
    data = json.loads(base64.urlsafe_b64decode(parts[part] + "=="))
    data.update(values)
    parts[part] = base64.urlsafe_b64encode(json.dumps(data).encode()).rstrip(b"=").decode()
    return ".".join(parts)


def test_a_token_says_who_and_for_whom(tmp_path: Path) -> None:
    clock = Wall()
    signer = TokenSigner(tmp_path, clock)
    token = signer.sign(ROBOT, 600)
    assert signer.verify(token, ["other", ISSUER]) == ROBOT
    again = TokenSigner(tmp_path, clock)
    assert again.verify(token, [ISSUER]) == ROBOT  # the key is kept
    assert stat.S_IMODE((tmp_path / "service-account.key").stat().st_mode) == 0o600


DEEP = base64.urlsafe_b64encode(b'{"iss":' + b"[" * 100_000 + b"]" * 100_000 + b"}").rstrip(b"=").decode()


WRONG = [
    (lambda token: changed(token, 0, alg="NoNe").rsplit(".", 1)[0] + ".", "alg value is not allowed"),
    (lambda token: changed(token, 0, alg=["ES256"]), "alg value is not allowed"),
    (lambda token: changed(token, 0, alg=None), "alg value is not allowed"),
    (lambda token: changed(token, 0, kid="../../../dev/null"), "unknown key"),
    (lambda token: changed(token, 0, kid=["a"]), "cannot be read"),
    (lambda token: changed(token, 0, crit=["own"], own=1), "cannot be read"),
    (lambda token: changed(token, 0, crit=[]), "cannot be read"),
    (lambda token: changed(token, 0, b64=False), "cannot be read"),
    (lambda token: changed(token, 0, jwk={"kty": "EC"}, jku="http://here"), "Signature verification failed"),
    (lambda token: token.rsplit(".", 1)[0] + "." + "A" * 86, "Signature verification failed"),
    (lambda token: ".".join((DEEP, *token.split(".")[1:])), "Invalid header"),
    (lambda token: ".".join((token.split(".")[0], DEEP, token.split(".")[2])), "Signature verification failed"),
    (lambda token: ".".join((token.split(".")[0], "A" * 1_000_000, "")), "Signature verification failed"),
    (lambda token: changed(token, 1, sub="system:serviceaccount:kube-system:admin"), "Signature verification failed"),
    (lambda token: changed(token, 0, alg="none"), "alg value is not allowed"),
    (lambda token: changed(token, 0, alg="HS256"), "alg value is not allowed"),
    (lambda token: changed(token, 0, kid="other"), "unknown key"),
    (lambda token: token.rsplit(".", 1)[0] + ".", "Signature verification failed"),
    (lambda token: token + ".x", "cannot be read"),
    (lambda token: "a.b.c", "Invalid header"),
    (lambda token: "", "Not enough segments"),
    (lambda token: "_w.b.c", "Invalid header"),
    (lambda token: token + "\udcff", "cannot be read"),
    (lambda token: "W1tb" * 8_000 + ".b.c", "Invalid header"),
]


@pytest.mark.parametrize(("damage", "why"), WRONG)
def test_changed_tokens_are_refused(tmp_path: Path, damage: Any, why: str) -> None:
    signer = TokenSigner(tmp_path, Wall())
    with pytest.raises(TokenError, match=why):
        signer.verify(damage(signer.sign(ROBOT, 600)), [ISSUER])
    assert signer.issued(damage(signer.sign(ROBOT, 600))) in (True, False)


@pytest.mark.parametrize("claim", ["aud", "exp", "nbf", "iss"])
@pytest.mark.parametrize("value", [None, "", [], {}, 1e300, "9999999999"])
def test_a_token_of_ours_without_a_claim_is_refused(
    tmp_path: Path, claim: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer, whole = TokenSigner(tmp_path, Wall()), jwt.encode

    def lacking(claims: dict[str, Any], *arguments: Any, **named: Any) -> str:
        return whole({**claims, claim: value}, *arguments, **named)

    monkeypatch.setattr(jwt, "encode", lacking)
    with pytest.raises((TokenError, TypeError)):  # TypeError: PyJWT signs no such issuer
        signer.verify(signer.sign(ROBOT, 600), [ISSUER])


def test_what_checks_tokens_is_loaded_with_the_first_one() -> None:
    code = "import sys, unisono.apiserver.server; print('jwt' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_tokens_end_and_are_for_their_audience(tmp_path: Path) -> None:
    clock = Wall()
    signer = TokenSigner(tmp_path / "a", clock)
    token = signer.sign(ROBOT, 600)
    with pytest.raises(TokenError, match="not for any of the audiences"):
        signer.verify(token, ["vault"])
    with pytest.raises(TokenError, match="unknown key"):
        TokenSigner(tmp_path / "b", clock).verify(token, [ISSUER])
    clock.now += 700
    with pytest.raises(TokenError, match="expired"):
        signer.verify(token, [ISSUER])
    clock.now -= 2000
    with pytest.raises(TokenError, match="not valid yet"):
        signer.verify(token, [ISSUER])


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda data: data.decode("latin-1")))
def test_no_text_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    signer = _shared(tmp_path_factory)
    assert not signer.issued(text)
    with pytest.raises(TokenError):
        signer.verify(text, [ISSUER])


@pytest.mark.parametrize("claims", [b'{"iss":"\xff"}', b"[" * 20_000])
async def test_what_cannot_be_read_is_refused_and_no_failure(web: WebClient, claims: bytes) -> None:
    part = base64.urlsafe_b64encode(claims).rstrip(b"=").decode()
    answer = await web.get("/api/v1/pods", headers={"Authorization": f"Bearer a.{part}.c"})
    assert answer.status == 401


def _shared(factory: pytest.TempPathFactory) -> TokenSigner:
    if not _SIGNERS:
        _SIGNERS.append(TokenSigner(factory.mktemp("keys"), Wall()))
    return _SIGNERS[0]


_SIGNERS: list[TokenSigner] = []


def test_a_broken_key_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "service-account.key").write_text("nonsense")
    with pytest.raises(ConfigError, match="remove it to have a new one made"):
        TokenSigner(tmp_path, Wall())


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[WebClient]:
    async with opened() as backend:
        await settle(backend)
        clock = Wall()
        async with serving(backend.service, tmp_path, clock=clock) as client:
            client.backend, client.wall = backend, clock  # type: ignore[attr-defined]
            yield client


async def token_of(web: WebClient, **spec: Any) -> str:
    reply = await web.post(TOKEN, {**REQUEST, "spec": spec})
    assert reply.status == 201, reply.body
    return str(reply.json()["status"]["token"])


async def who(web: WebClient, token: str) -> Any:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    reply = await web.post(path, body, headers={"Authorization": f"Bearer {token}"})
    return reply.json()["status"]["userInfo"] if reply.status == 201 else reply.status


async def test_a_token_is_good_until_its_time_is_over(web: WebClient) -> None:
    token = await token_of(web, expirationSeconds=600)
    found = await who(web, token)
    assert found["username"] == "system:serviceaccount:default:default"
    assert found["groups"] == ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    web.wall.now += 700  # type: ignore[attr-defined]
    assert await who(web, token) == 401


async def test_a_token_ends_with_its_account_and_its_pod(web: WebClient) -> None:
    service = web.backend.service  # type: ignore[attr-defined]
    await service.create(PODS, "default", pod_body("p"), WriteOptions())
    bound = await token_of(web, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
    free = await token_of(web)
    found = await who(web, bound)
    assert found["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
    await service.delete(PODS, "default", "p", DELETE)
    assert await who(web, bound) == 401
    assert isinstance(await who(web, free), dict)
    # A new account of the same name is another one.
    await service.delete(SERVICE_ACCOUNTS, "default", "default", DELETE)
    await settle(web.backend)  # type: ignore[attr-defined]
    assert (await service.get(SERVICE_ACCOUNTS, "default", "default")) is not None
    assert await who(web, free) == 401


REFUSED = [
    ({"expirationSeconds": 60}, 422, "may not specify a duration less than 10 minutes"),
    ({"boundObjectRef": {"kind": "Pod", "name": "none"}}, 404, 'pods "none" not found'),
    ({"boundObjectRef": {"kind": "ConfigMap", "name": "c"}}, 400, "cannot bind token to object of type"),
]


@pytest.mark.parametrize(("spec", "code", "message"), REFUSED)
async def test_requests_that_cannot_be_met(web: WebClient, spec: dict[str, Any], code: int, message: str) -> None:
    reply = await web.post(TOKEN, {**REQUEST, "spec": spec})
    assert (reply.status, message in reply.json()["message"]) == (code, True)


async def test_token_reviews(web: WebClient) -> None:
    async def review(token: str, *audiences: str) -> Any:
        spec = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        return (await web.post("/apis/authentication.k8s.io/v1/tokenreviews", body)).json()["status"]

    mine = await token_of(web)
    vault = await token_of(web, audiences=["vault"])
    found = await review(mine)
    assert (found["authenticated"], found["audiences"]) == (True, [ISSUER])
    assert (await review(vault, "vault", "other"))["audiences"] == ["vault"]
    assert "authenticated" not in await review(vault)
    assert await who(web, vault) == 401
    assert (await review("nonsense"))["error"] == "the token is unknown"


async def test_others_can_check_tokens_by_the_published_key(web: WebClient) -> None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    def number(text: str) -> int:
        return int.from_bytes(base64.urlsafe_b64decode(text + "=="), "big")

    configuration = (await web.get("/.well-known/openid-configuration")).json()
    assert configuration["issuer"] == ISSUER
    keys = (await web.get(configuration["jwks_uri"].removeprefix(web.server.url))).json()["keys"]
    head, claims, signature = (await token_of(web)).split(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    public = ec.EllipticCurvePublicNumbers(number(keys[0]["x"]), number(keys[0]["y"]), ec.SECP256R1()).public_key()
    pair = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    public.verify(pair, f"{head}.{claims}".encode(), ec.ECDSA(hashes.SHA256()))


async def test_tokens_never_reach_a_log(web: WebClient, capsys: pytest.CaptureFixture[str]) -> None:
    token = await token_of(web)
    await who(web, token)
    await who(web, token[:-4])
    out, err = capsys.readouterr()
    assert token[:-8] not in out + err


async def test_acting_as_somebody_else_needs_the_right_to(web: WebClient) -> None:
    token = await token_of(web)
    headers = {"Authorization": f"Bearer {token}", "Impersonate-User": "root"}
    reply = await web.get("/api/v1/pods", headers=headers)
    assert (reply.status, reply.json()["message"]) == (
        403,
        'users "root" is forbidden: User "system:serviceaccount:default:default" cannot impersonate resource "users" '
        'in API group "" at the cluster scope',
    )
    reply = await web.get("/api/v1/pods", headers={"Impersonate-Group": "system:masters"})
    assert reply.status == 400
    reply = await web.get("/api/v1/pods", headers={"Impersonate-User": "system:anonymous"})
    assert reply.status == 403
