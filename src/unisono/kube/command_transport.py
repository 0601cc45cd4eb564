"""HTTP for commands that ask a few questions and end: the standard library's client, which is imported quickly."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import ssl
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

from unisono import __version__
from unisono.errors import Unavailable, system_reason
from unisono.kube import auth
from unisono.kube.kubeconfig import ClusterConfig
from unisono.kube.transport import Answer, Params, Transport, is_loopback

_THREADS = 8


class CommandTransport(Transport):
    """As `Transport`, with one thread for each of a few requests; streams and proxies are left to `Transport`."""

    def __init__(self, config: ClusterConfig) -> None:
        super().__init__(config)
        split = urlsplit(config.server)
        self._host, self._prefix = split.hostname or "", split.path.rstrip("/")
        self._secure = split.scheme == "https"
        self._port = split.port or (443 if self._secure else 80)
        self._local = is_loopback(config.server)
        self._idle: list[http.client.HTTPConnection] = []
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="unisono-http")
        self._needs_proxy = config.proxy is not None or (not self._local and _has_proxy(split.scheme, self._host))

    async def close(self) -> None:
        """Close all connections."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        self._executor.shutdown(wait=False, cancel_futures=True)
        await super().close()

    async def _exchange(
        self,
        method: str,
        path: str,
        params: Params | None,
        body: bytes | None,
        headers: list[tuple[str, str]],
        seconds: float,
    ) -> Answer:
        if self._needs_proxy:
            return await super()._exchange(method, path, params, body, headers, seconds)
        if self._closed:
            raise Unavailable(f"The client of {self.config.server} has been closed.")
        url = f"{self._prefix}{path}" + (f"?{urlencode(params)}" if params else "")
        encoding = "identity" if self._local else "gzip"
        fields = [("User-Agent", f"{self._program}/{__version__}"), ("Accept-Encoding", encoding), *headers]
        # A write goes over a connection of its own: whether one broke before or after it arrived cannot be told.
        reused = method == "GET" and bool(self._idle)
        connection = self._idle.pop() if reused else self._connection(seconds)
        loop = asyncio.get_running_loop()
        call = loop.run_in_executor(self._executor, _call, connection, method, url, body, fields)
        try:
            answer = await call
        except asyncio.CancelledError:
            _abort(connection)
            raise
        except ssl.SSLCertVerificationError as error:
            connection.close()
            raise self._unreachable(f"its certificate is not trusted ({error.verify_message})") from error
        except TimeoutError as error:
            connection.close()
            raise self._unreachable("it gave no answer in time") from error
        except (OSError, http.client.HTTPException, zlib.error, EOFError) as error:
            connection.close()
            if reused:  # the server had closed it meanwhile
                self._idle.clear()
                return await self._exchange(method, path, params, body, headers, seconds)
            why = system_reason(error) if isinstance(error, OSError) else str(error) or type(error).__name__
            raise self._unreachable(why) from error
        if connection.sock is not None and method == "GET":
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        if not self._secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=seconds)
        context = self._tls or auth.context(self.config)
        name = self.config.tls_server_name
        return _NamedConnection(self._host, self._port, name, timeout=seconds, context=context)


class _NamedConnection(http.client.HTTPSConnection):
    """A connection whose server's certificate may be for another name than the host's."""

    def __init__(self, host: str, port: int, server_name: str | None, **options: Any) -> None:
        super().__init__(host, port, **options)
        self._server_name = server_name or host
        self._tls = options["context"]

    def connect(self) -> None:
        """Connect, and check the certificate for the server's name."""
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._server_name)


def _call(
    connection: http.client.HTTPConnection,
    method: str,
    url: str,
    body: bytes | None,
    headers: Sequence[tuple[str, str]],
) -> Answer:
    connection.putrequest(method, url, skip_accept_encoding=True)
    for name, value in headers:  # one line each: a user may be impersonated with several groups
        connection.putheader(name, value)
    if body is not None or method != "GET":
        connection.putheader("Content-Length", str(len(body or b"")))
    connection.endheaders(body)
    response = connection.getresponse()
    data = response.read()
    response_headers = _Headers(response.getheaders())
    if response_headers.get("Content-Encoding", "") == "gzip":
        data = gzip.decompress(data)
    return response.status, response_headers, data


class _Headers(dict[str, str]):
    """Headers by their names, whatever their case; ``get`` answers the last of several of a name."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        super().__init__((name.lower(), value) for name, value in pairs)
        self._pairs = pairs

    def getall(self, name: str, default: Any = None) -> Any:
        """All values of a name, or ``default``."""
        return [value for each, value in self._pairs if each.lower() == name.lower()] or default

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name.lower() if isinstance(name, str) else name)

    def get(self, name: str, default: Any = None) -> Any:
        """The value, or ``default``."""
        return super().get(name.lower(), default)


def _abort(connection: http.client.HTTPConnection) -> None:
    """Wake the thread that waits for an answer that is no longer wanted."""
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(2)
    connection.close()


def _has_proxy(scheme: str, host: str) -> bool:
    return scheme in getproxies() and not proxy_bypass(host)
