"""Credentials that change while a client lives: token files and exec plug-ins."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from unisono.api.times import parse_time
from unisono.errors import ConfigError
from unisono.kube.clock import Clock
from unisono.kube.kubeconfig import AuthProvider, ClusterConfig, ExecPlugin

# TLS contexts for a cluster's configuration.


def context(config: ClusterConfig) -> ssl.SSLContext | None:
    """The context to connect with, None for plain HTTP.

    Raises:
        ConfigError: a certificate or key is not usable.
    """
    if not config.server.startswith("https://"):
        return None
    try:
        result = ssl.create_default_context(cadata=config.ca.decode() if config.ca else None)
    except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
        raise ConfigError(f"the certificate authority of {config.server} is not valid PEM: {error}") from error
    if config.insecure:
        result.check_hostname = False
        result.verify_mode = ssl.CERT_NONE
    if config.client_certificate and config.client_key:
        _load_pair(result, config.client_certificate, config.client_key)
    return result


def _load_pair(target: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # OpenSSL reads key pairs from files only; the file is private and gone again at once.
    with tempfile.TemporaryDirectory(prefix="unisono-tls-") as folder:
        file = Path(folder) / "pair.pem"
        file.touch(mode=0o600)
        file.write_bytes(certificate.rstrip() + b"\n" + key)
        try:
            target.load_cert_chain(file)
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(f"the client certificate and key do not fit or are not PEM: {error}") from error


# Ways to log in that only the official client knows: a kubeconfig's ``auth-provider`` ``oidc`` or ``gcp``.

# The official client renews an ended token when it reads the file, and a token that was refused is read at once.
_READ_SECONDS = 60.0


class OfficialCredentials:
    """The token that the official client finds, or renews, for a context of a kubeconfig."""

    certificate: tuple[bytes, bytes] | None = None

    def __init__(self, provider: AuthProvider, clock: Clock) -> None:
        self._provider, self._clock = provider, clock
        self._token, self._read_at = "", float("-inf")
        self._lock = asyncio.Lock()

    async def authorization(self) -> str | None:
        """``Bearer`` and the token.

        Raises:
            ConfigError: the extra is not installed, or the token can be neither read nor renewed.
        """
        async with self._lock:
            now = self._clock.monotonic()
            if now - self._read_at >= _READ_SECONDS:
                self._token = await asyncio.to_thread(_token, self._provider)
                self._read_at = now
            return self._token

    def refused(self) -> bool:
        """Read the token again at the next request."""
        again = self._clock.monotonic() > self._read_at
        self._read_at = float("-inf")
        return again


def _token(provider: AuthProvider) -> str:
    name = provider.name
    try:
        kubernetes: Any = import_module("kubernetes")
    except ImportError as error:
        raise ConfigError(
            f"auth-provider {name} needs the official client: pip install 'unisono[kubernetes]', or use an exec plug-in"
        ) from error
    settings = kubernetes.client.Configuration()
    try:
        kubernetes.config.load_kube_config(
            config_file=os.pathsep.join(map(str, provider.files)),
            context=provider.context,
            client_configuration=settings,
        )
    except Exception as error:
        # Whatever is wrong with a provider's settings or its server: its libraries raise errors of many kinds.
        said = str(error) or type(error).__name__
        raise ConfigError(f"auth-provider {name}: the official client could not log in: {said}") from error
    token = settings.api_key.get("BearerToken") or settings.api_key.get("authorization")
    if not token:
        raise ConfigError(f"auth-provider {name}: its settings hold no token that can be used; log in again")
    return str(token)


# client-go reads a token file again after a minute; kubelets rotate tokens long before they expire.
_TOKEN_FILE_SECONDS = 60.0
# An exec credential is renewed this long before its end, so that no request leaves with a token that just
# ends.
_EXEC_MARGIN_SECONDS = 30.0
_EXEC_TIMEOUT_SECONDS = 60.0


class Credentials(Protocol):
    """Answers the Authorization header, and a client certificate where that is how one says who one is."""

    @property
    def certificate(self) -> tuple[bytes, bytes] | None:
        """Certificate and key (PEM) as of the latest ``authorization``; None for those of the configuration."""
        ...

    async def authorization(self) -> str | None:
        """Value of the Authorization header, None for none."""
        ...

    def refused(self) -> bool:
        """The server said 401: forget what is cached; True when asking again may give something new."""
        ...


class Static:
    """Credentials that never change."""

    certificate: tuple[bytes, bytes] | None = None

    def __init__(self, value: str | None) -> None:
        self._value = value

    async def authorization(self) -> str | None:
        """The value given."""
        return self._value

    def refused(self) -> bool:
        """Nothing new will come."""
        return False


class TokenFile:
    """A bearer token in a file that someone rotates."""

    certificate: tuple[bytes, bytes] | None = None

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path, self._clock = path, clock
        self._token, self._read_at = "", float("-inf")

    async def authorization(self) -> str | None:
        """``Bearer`` and the token, at most a minute old; the last good one while the file cannot be read."""
        now = self._clock.monotonic()
        if now - self._read_at >= _TOKEN_FILE_SECONDS:
            try:
                self._token = (await asyncio.to_thread(self._path.read_text)).strip()
            except OSError as error:
                if not self._token:
                    raise ConfigError(
                        f"the token file cannot be read: {error.strerror}", file=str(self._path)
                    ) from error
            self._read_at = now
        return f"Bearer {self._token}"

    def refused(self) -> bool:
        """Read the file at the next request."""
        again = self._clock.monotonic() > self._read_at
        self._read_at = float("-inf")
        return again


class ExecCredentials:
    """Runs a program that prints an ExecCredential, and keeps what it says until shortly before that expires."""

    def __init__(self, plugin: ExecPlugin, config: ClusterConfig, clock: Clock) -> None:
        self._plugin, self._config, self._clock = plugin, config, clock
        self._token: str | None = None
        self.certificate: tuple[bytes, bytes] | None = None
        self._expires = float("-inf")
        self._lock = asyncio.Lock()

    async def authorization(self) -> str | None:
        """``Bearer`` and the program's token; None if it gave a certificate alone."""
        async with self._lock:
            if self._clock.time() >= self._expires - _EXEC_MARGIN_SECONDS:
                self._take(await self._run())
            return None if self._token is None else f"Bearer {self._token}"

    def refused(self) -> bool:
        """Run the program at the next request."""
        had = self._expires != float("-inf")
        self._expires = float("-inf")
        return had

    async def _run(self) -> Mapping[str, Any]:
        name = self._plugin.command
        env = {**os.environ, **self._plugin.env, "KUBERNETES_EXEC_INFO": json.dumps(self._info())}
        try:
            process = await asyncio.create_subprocess_exec(
                name, *self._plugin.args, env=env, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
        except OSError as error:
            hint = f": {self._plugin.install_hint.strip()}" if self._plugin.install_hint else ""
            raise ConfigError(f"the credential program {name!r} cannot be started ({error.strerror}){hint}") from error
        try:
            async with asyncio.timeout(_EXEC_TIMEOUT_SECONDS):
                out, err = await process.communicate()
        except TimeoutError as error:
            process.kill()
            await process.wait()
            raise ConfigError(
                f"the credential program {name!r} gave no answer within {_EXEC_TIMEOUT_SECONDS:.0f} s"
            ) from error
        if process.returncode:
            text = err.decode(errors="replace").strip().splitlines()
            raise ConfigError(
                f"the credential program {name!r} failed with {process.returncode}: {text[-1] if text else ''}"
            )
        try:
            answer = json.loads(out)
            status, version = dict(answer["status"]), answer.get("apiVersion")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"the credential program {name!r} did not print an ExecCredential") from error
        if version is not None and version != self._plugin.api_version:
            raise ConfigError(
                f"the credential program {name!r} speaks {version}, the kubeconfig says {self._plugin.api_version}"
            )
        return status

    def _take(self, status: Mapping[str, Any]) -> None:
        name, token = self._plugin.command, status.get("token")
        certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
        if bool(certificate) != bool(key):
            missing = "clientKeyData" if certificate else "clientCertificateData"
            raise ConfigError(f"the credential program {name!r} gave no {missing}")
        if not token and not certificate:
            raise ConfigError(f"the credential program {name!r} gave neither a token nor a client certificate")
        pair = (str(certificate).encode(), str(key).encode()) if certificate else None
        if pair != self.certificate:
            self.certificate = pair
        self._token = str(token) if token else None
        expires = status.get("expirationTimestamp")
        self._expires = parse_time(str(expires)) if expires else float("inf")

    def _info(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"interactive": False}
        if self._plugin.provide_cluster:
            spec["cluster"] = {"server": self._config.server}
            if self._config.insecure:
                spec["cluster"]["insecure-skip-tls-verify"] = True
            if self._config.tls_server_name:
                spec["cluster"]["tls-server-name"] = self._config.tls_server_name
            if self._config.proxy:
                spec["cluster"]["proxy-url"] = self._config.proxy
            if self._config.ca is not None:
                spec["cluster"]["certificate-authority-data"] = base64.b64encode(self._config.ca).decode()
        return {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}


def credentials(config: ClusterConfig, clock: Clock) -> Credentials:
    """What a cluster's configuration authenticates with; token file before token, as kubectl does."""
    if config.token_file is not None:
        return TokenFile(config.token_file, clock)
    if config.token is not None:
        return Static(f"Bearer {config.token}")
    if config.username is not None:
        pair = f"{config.username}:{config.password or ''}".encode()
        return Static(f"Basic {base64.b64encode(pair).decode()}")
    if config.exec_plugin is not None:
        return ExecCredentials(config.exec_plugin, config, clock)
    if config.auth_provider is not None:
        return OfficialCredentials(config.auth_provider, clock)
    return Static(None)
