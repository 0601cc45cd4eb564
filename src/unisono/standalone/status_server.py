"""``/healthz``, ``/livez``, ``/readyz`` and ``/metrics`` of a component that runs as its own process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from unisono.errors import ConfigError, system_reason
from unisono.kube.listening import AppListener

Reasons = Callable[[], Sequence[str]]


class StatusServer:
    """Plain HTTP for probes and Prometheus; it tells numbers and states, never objects."""

    def __init__(self, listen: str, registry: CollectorRegistry, *, dead: Reasons, unready: Reasons) -> None:
        """Make a server.

        Args:
            listen: ``HOST:PORT``; port 0 takes a free one, ``[::]:8080`` is IPv6.
            registry: what ``/metrics`` shows.
            dead: why the process should be restarted; empty when it lives.
            unready: why the component does not do its work now; empty when it does.

        Raises:
            ConfigError: ``listen`` is not an address.

        """
        self._host, self._port = parse_listen(listen)
        self._registry, self._dead, self._unready = registry, dead, unready
        self._listener: AppListener | None = None
        self.url = ""

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigError: the address is taken or not of this machine.

        """
        app = web.Application()
        app.router.add_get("/healthz", self._live)
        app.router.add_get("/livez", self._live)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/metrics", self._metrics)
        try:
            listener = await AppListener.open(app, self._host, self._port)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {self._host}:{self._port} ({system_reason(error)}): name another address",
                key="--listen",
            ) from error
        self._listener = listener
        host, port = listener.address
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def stop(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            await self._listener.close()
            self._listener = None

    async def _live(self, _: web.Request) -> web.Response:
        return _answer(self._dead())

    async def _ready(self, _: web.Request) -> web.Response:
        return _answer([*self._dead(), *self._unready()])

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


def parse_listen(text: str) -> tuple[str, int]:
    """Host (empty: every address) and port of ``HOST:PORT``, ``:PORT`` or ``[IPV6]:PORT``.

    Raises:
        ConfigError: it is not of that form.

    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535 or (":" in host and not host.startswith("[")):
        raise ConfigError(f"{text!r} is not an address such as 127.0.0.1:8080 or :8080", key="--listen")
    return host.strip("[]"), int(port)


def _answer(reasons: Sequence[str]) -> web.Response:
    if reasons:
        return web.Response(status=503, text="".join(f"{reason}\n" for reason in reasons))
    return web.Response(text="ok")
