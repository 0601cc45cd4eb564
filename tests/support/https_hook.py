"""A webhook of a user's own on this machine: real TLS, one path, answers by a function of the review."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from unisono.apiserver.access.pki import Authority
from unisono.kube.listening import AppListener

Document = dict[str, Any]

# A review of many objects is larger than what aiohttp takes by default.
_MAX_BODY = 8 * 1024 * 1024


@asynccontextmanager
async def https_hook(
    authority: Authority, name: str, path: str, answer: Callable[[Document], Document]
) -> AsyncIterator[int]:
    """Answer reviews on a free port of 127.0.0.1, for as long as the context lasts.

    Args:
        authority: signs the certificate.
        name: host name or address that the certificate is for.
        path: where reviews are posted.
        answer: the ``response`` to a review, without its ``uid``.

    Yields:
        The port.

    """
    context = authority.server_context([name])
    assert isinstance(context, ssl.SSLContext)

    async def reply(request: web.Request) -> web.Response:
        review = await request.json()
        return web.json_response({**review, "response": {"uid": review["request"]["uid"], **answer(review)}})

    app = web.Application(client_max_size=_MAX_BODY)
    app.router.add_post(path, reply)
    listener = await AppListener.open(app, "127.0.0.1", 0, tls=context)
    try:
        yield listener.address[1]
    finally:
        await listener.close()
