"""The dashboard as a component of a cluster: it has the API server's address and trust, and no account."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from unisono.dashboard.live.configuration import ConfigurationPlaces
from unisono.dashboard.server import DashboardServer
from unisono.errors import ConfigError
from unisono.history.source import HistorySource
from unisono.install.options import NAMESPACE
from unisono.kube.kubeconfig import ClusterConfig
from unisono.kube.reflector import ReflectorStatistics


def cluster_without_account(authority: Path, env: Mapping[str, str] = os.environ) -> ClusterConfig:
    """The API server of the cluster that this pod runs in, without credentials.

    Args:
        authority: PEM of its certificate authority, as in the ConfigMap ``kube-root-ca.crt`` of each namespace.
        env: of the process; every pod's names the API server.

    Raises:
        ConfigError: this is no pod.

    """
    host, port = env.get("KUBERNETES_SERVICE_HOST", ""), env.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError("KUBERNETES_SERVICE_HOST is not set: this process does not run in a pod")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return ClusterConfig(server=server, ca=authority.read_bytes())


def address(serve: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``; no host stands for all addresses.

    Raises:
        ConfigError: it is no address.

    """
    host, _, port = serve.strip().rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise ConfigError(f"{serve!r} is no address: give HOST:PORT, such as :8090", key="serve")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104  # nosec B104 # what is asked for


class DashboardPart:
    """Serves the page for as long as the process runs.

    Args:
        config: of the API server, without credentials.
        serve: ``HOST:PORT``.
        names: under which browsers reach it.
        secure: browsers reach it over HTTPS.
        token_header: in which an authenticating proxy sends tokens; empty for none.
        namespace: of the installation, with the scheduler's configuration.
        history: who knows the cluster's past; None where no history is kept.

    Attributes:
        ready: it listens.
        url: of the page, once it listens.

    """

    def __init__(
        self,
        config: ClusterConfig,
        serve: str,
        names: Collection[str],
        *,
        secure: bool,
        token_header: str,
        namespace: str = NAMESPACE,
        history: HistorySource | None = None,
    ) -> None:
        host, port = address(serve)
        self._server = DashboardServer(
            config,
            host,
            port,
            names=names,
            secure=secure,
            token_header=token_header,
            places=ConfigurationPlaces(namespace),
            history=history,
        )
        self.ready = asyncio.Event()
        self.url = ""

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            ConfigError: the address cannot be used.

        """
        await self._server.start()
        self.url = self._server.url
        self.ready.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ready.clear()
            await self._server.stop()

    def streams(self) -> Mapping[str, ReflectorStatistics]:
        """It watches with the viewers' rights alone: whether that goes well is theirs to see."""
        return {}

    def unready(self) -> list[str]:
        """Nothing keeps it from serving."""
        return []
