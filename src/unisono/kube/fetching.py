"""Asking servers that administrators name: one GET, bounded in time and size, with credentials."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Mapping

import aiohttp

from unisono.api.topology_sources import MOST_BYTES, SourceFailed

_CHUNK = 1 << 20


class NetworkFetch:
    """Asks over the network.

    Args:
        timeout_seconds: for a whole answer.

    """

    def __init__(self, timeout_seconds: float = 30.0) -> None:
        self._timeout = timeout_seconds

    async def get(
        self, url: str, *, credentials: Mapping[str, str], verify: bool = True, most_bytes: int = MOST_BYTES
    ) -> bytes:
        """The body of a GET; see ``Fetch``.

        Raises:
            SourceFailed: it does not answer in time, or otherwise.

        """
        try:
            async with asyncio.timeout(self._timeout):
                return await self._get(url, credentials, verify, most_bytes)
        except TimeoutError as error:
            raise SourceFailed(f"{url} does not answer within {self._timeout:g} s") from error
        except aiohttp.ClientConnectorCertificateError as error:
            way_out = "put the certificate of its authority into the Secret as ca.crt"
            raise SourceFailed(f"{url} shows no certificate that is trusted; {way_out}") from error
        except (OSError, aiohttp.ClientError, ValueError) as error:
            raise SourceFailed(f"{url} cannot be reached: {error or type(error).__name__}") from error

    async def _get(self, url: str, credentials: Mapping[str, str], verify: bool, most_bytes: int) -> bytes:
        # No proxies and no redirects: credentials go to the server that is named, and nowhere else.
        async with (
            aiohttp.ClientSession(trust_env=False, headers=_headers(credentials)) as session,
            session.get(url, ssl=_trust(credentials, verify), allow_redirects=False) as response,
        ):
            if response.status != 200:
                hint = "; are the credentials right?" if response.status in (401, 403) else ""
                raise SourceFailed(f"{url} answers status {response.status}{hint}")
            parts, size = [], 0
            async for part in response.content.iter_chunked(_CHUNK):
                size += len(part)
                if size > most_bytes:
                    raise SourceFailed(f"the answer of {url} is longer than {most_bytes} bytes")
                parts.append(part)
            return b"".join(parts)


def _headers(credentials: Mapping[str, str]) -> dict[str, str]:
    if "token" in credentials:
        return {"Authorization": f"Bearer {credentials['token']}"}
    if "username" in credentials:
        pair = f"{credentials['username']}:{credentials.get('password', '')}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    return {}


def _trust(credentials: Mapping[str, str], verify: bool) -> ssl.SSLContext | bool:
    if not verify:
        return False
    authority = credentials.get("ca.crt")
    return ssl.create_default_context(cadata=authority) if authority else True
