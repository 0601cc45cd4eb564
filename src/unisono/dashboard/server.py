"""Listens for browsers, and on a socket of its owner for commands that want a one-time link."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Collection, Mapping
from pathlib import Path
from socket import socket

from unisono.dashboard.http.app import Dashboard
from unisono.dashboard.http.guard import BUILT, hosts_of, read_files
from unisono.dashboard.http.sessions import Sessions
from unisono.dashboard.live.configuration import ConfigurationPlaces
from unisono.dashboard.live.viewing import Past
from unisono.errors import ConfigError, system_reason
from unisono.history.reading import HistorySource
from unisono.install.workloads import NAMESPACE
from unisono.kube.kubeconfig import ClusterConfig
from unisono.kube.listening import AppListener
from unisono.kube.reflector import ReflectorStatistics

# Requests are streams that end with the server.
_PATIENCE_SECONDS = 0.5


class DashboardServer:
    """One dashboard.

    Args:
        config: the API server; its credentials are used for one-time links alone.
        host: address to listen on.
        port: 0 takes any that is free.
        names: further Host headers under which browsers reach it, through a proxy or a Service.
        secure: browsers reach it over HTTPS.
        page: folder of the built page.
        bound: a socket to listen on, and not host and port.
        codes: folder of one-time codes that others than this process have made (`unisono.dashboard.http.sessions`).
        token_header: in which an authenticating proxy sends the user's token; empty for none.
        places: where the scheduler's configuration is looked for.
        history: who knows the past that the API server does not keep; None where no history is kept.

    Attributes:
        url: of the page.
        sessions: who is signed in.
    """

    def __init__(
        self,
        config: ClusterConfig,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        names: Collection[str] = (),
        secure: bool = False,
        page: Path = BUILT,
        bound: socket | None = None,
        codes: Path | None = None,
        token_header: str = "",
        places: ConfigurationPlaces | None = None,
        history: HistorySource | None = None,
    ) -> None:
        self._past = None if history is None else Past(history)
        self._bound, self._token_header = bound, token_header
        self._page = page
        self._config, self._host, self._port = config, host, port
        self._names, self._secure = names, secure
        self._listener: AppListener | None = None
        self.sessions = Sessions(config, codes=codes, places=places)
        self.url = ""

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigError: the address is taken, or not one of this machine.
        """
        hosts: set[str] = set()
        dashboard = Dashboard(
            self.sessions,
            read_files(self._page),
            hosts,
            server=self._config.server,
            secure=self._secure,
            token_header=self._token_header,
            past=self._past,
        )
        dashboard.cookie = f"unisono-{secrets.token_hex(4)}"
        try:
            listener = await AppListener.open(
                dashboard.app(), self._host, self._port, patience=_PATIENCE_SECONDS, bound=self._bound
            )
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {self._host}:{self._port} ({system_reason(error)}); choose another", key="port"
            ) from error
        self._listener = listener
        host, port = listener.address
        hosts |= hosts_of(host, port, self._names)
        shown = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host  # noqa: S104  # nosec B104
        self.url = f"http://{shown}:{port}"

    async def stop(self) -> None:
        """Take no more requests, and forget who is signed in."""
        await self.sessions.close()
        if self._listener is not None:
            await self._listener.close()
            self._listener = None

    def link(self, config: ClusterConfig | None = None) -> str:
        """An address that signs one browser in, once and within two minutes.

        Args:
            config: with whose credentials; None for those of the server's own configuration.
        """
        # Behind the # it is not sent to any server, and stands in no log.
        return f"{self.url}/#code={self.sessions.code_for(config or self._config)}"


# The dashboard as a component of a cluster: it has the API server's address and trust, and no account.


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
