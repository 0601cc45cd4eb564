"""OpenID Connect and Google Cloud in a kubeconfig's ``auth-provider``, by the official client."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.virtual_clock import VirtualClock
from unisono.errors import ConfigError
from unisono.kube import auth
from unisono.kube.auth import Credentials, credentials
from unisono.kube.kubeconfig import load

FAR, PAST = 4102444800, 946684800


def id_token(expires: int, name: str) -> str:
    """A token as a provider gives it, without a signature that anybody checks here."""

    def part(value: Any) -> str:
        # Padded with blanks: the client takes no token whose parts need padding of their own.
        text = json.dumps(value)
        return base64.urlsafe_b64encode((text + " " * (-len(text) % 3)).encode()).decode()

    return ".".join((part({"alg": "none"}), part({"exp": expires, "sub": name}), "c2ln"))


class Provider(BaseHTTPRequestHandler):
    """An identity provider that knows one refresh token."""

    def do_GET(self) -> None:
        host, port = self.server.server_address[:2]
        self._answer(200, {"token_endpoint": f"http://{host!s}:{port}/token"})

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if "refresh_token=first" not in asked:
            self._answer(400, {"error": "invalid_grant"})
            return
        new = {"id_token": id_token(FAR, "renewed"), "refresh_token": "second", "access_token": "a"}
        self._answer(200, {**new, "token_type": "Bearer", "expires_in": 60})

    def _answer(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Nobody reads it."""


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")
    with HTTPServer(("127.0.0.1", 0), Provider) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def logged_in(path: Path, name: str, **settings: str) -> Credentials:
    value = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443"}}],
        "users": [{"name": "u", "user": {"auth-provider": {"name": name, "config": settings}}}],
    }
    path.write_text(yaml.safe_dump(value))
    return credentials(load(path), VirtualClock())


def oidc(path: Path, issuer: str, expires: int, refresh: str = "first") -> Credentials:
    return logged_in(
        path,
        "oidc",
        **{
            "client-id": "unisono",
            "client-secret": "secret",
            "id-token": id_token(expires, "stored"),
            "idp-issuer-url": issuer,
            "refresh-token": refresh,
        },
    )


async def test_a_token_that_holds_is_used(tmp_path: Path) -> None:
    pytest.importorskip("kubernetes")
    found = oidc(tmp_path / "config", "http://127.0.0.1:1", FAR)
    assert await found.authorization() == f"Bearer {id_token(FAR, 'stored')}"


async def test_an_ended_token_is_renewed_and_kept(tmp_path: Path, issuer: str) -> None:
    pytest.importorskip("kubernetes")
    path = tmp_path / "config"
    assert await oidc(path, issuer, PAST).authorization() == f"Bearer {id_token(FAR, 'renewed')}"
    (user,) = yaml.safe_load(path.read_text())["users"]
    assert user["user"]["auth-provider"]["config"]["refresh-token"] == "second", "the provider took the first one back"


async def test_a_refused_renewal_says_which_provider(tmp_path: Path, issuer: str) -> None:
    pytest.importorskip("kubernetes")
    with pytest.raises(ConfigError, match="auth-provider oidc: the official client could not log in"):
        await oidc(tmp_path / "config", issuer, PAST, refresh="stolen").authorization()


async def test_google_cloud_tokens_are_used_until_they_end(tmp_path: Path) -> None:
    pytest.importorskip("kubernetes")
    settings = {"access-token": "ya29", "expiry": "2100-01-01T00:00:00Z"}
    assert await logged_in(tmp_path / "config", "gcp", **settings).authorization() == "Bearer ya29"


async def test_a_refused_token_is_read_again(tmp_path: Path) -> None:
    pytest.importorskip("kubernetes")
    path, clock = tmp_path / "config", VirtualClock()
    logged_in(path, "gcp", **{"access-token": "old", "expiry": "2100-01-01T00:00:00Z"})
    found = credentials(load(path), clock)
    assert await found.authorization() == "Bearer old"
    path.write_text(path.read_text().replace("old", "new"))
    assert await found.authorization() == "Bearer old"
    await clock.advance(1.0)
    assert found.refused()
    assert await found.authorization() == "Bearer new"
    assert not found.refused(), "asking at the same moment gives nothing new"


async def test_without_the_official_client_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(auth, "import_module", missing)
    with pytest.raises(ConfigError, match=r"pip install 'unisono\[kubernetes\]'"):
        await logged_in(tmp_path / "config", "gcp", **{"access-token": "t"}).authorization()
