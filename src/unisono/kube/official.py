"""Ways to log in that only the official client knows: a kubeconfig's ``auth-provider`` ``oidc`` or ``gcp``."""

from __future__ import annotations

import asyncio
import os
from importlib import import_module
from typing import Any

from unisono.errors import ConfigError
from unisono.kube.clock import Clock
from unisono.kube.kubeconfig import AuthProvider

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
