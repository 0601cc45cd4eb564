"""Kinds that are answered and not stored: reviews of rights and identities, and tokens of service accounts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from aiohttp import web

from unisono.api.decode import encode
from unisono.api.kind import Kind
from unisono.apiserver import codec
from unisono.apiserver.access.service_accounts import ServiceAccountTokens
from unisono.apiserver.authorization.kinds import TOKEN_REQUESTS
from unisono.apiserver.authorization.reviews import Reviews
from unisono.apiserver.failures import bad_request
from unisono.apiserver.http.body import content_type, decode_object
from unisono.apiserver.http.exchange import Exchange
from unisono.apiserver.http.path import ResourcePath
from unisono.apiserver.http.query import write_options


class ReviewHandlers:
    """POSTs whose answer is what was sent, completed.

    Args:
        reviews: answers questions.
        accounts: makes tokens.
        clock: Unix seconds.

    """

    def __init__(self, reviews: Reviews, accounts: ServiceAccountTokens, clock: Callable[[], float]) -> None:
        self._reviews, self._accounts, self._clock = reviews, accounts, clock

    async def review(self, exchange: Exchange, kind: Kind[Any], path: ResourcePath) -> web.StreamResponse:
        """POST of a review."""
        if kind.namespaced and not path.namespace:
            raise bad_request("namespace is required on this type")
        review, warnings = await self._read(exchange, kind)
        answer = self._reviews.answer(kind, review, exchange.user, path.namespace)
        return await exchange.send(201, encode(answer), warnings)

    async def token(self, exchange: Exchange, path: ResourcePath) -> web.StreamResponse:
        """POST of a TokenRequest below a service account."""
        request, warnings = await self._read(exchange, TOKEN_REQUESTS)
        answer = self._accounts.issue(request, str(path.namespace), str(path.name), self._clock())
        return await exchange.send(201, encode(answer), warnings)

    async def _read(self, exchange: Exchange, kind: Kind[Any]) -> tuple[Any, list[str]]:
        body = decode_object(await exchange.body(), content_type(exchange.request), kind.kind)
        body.value["apiVersion"] = body.value.get("apiVersion") or kind.api_version
        body.value["kind"] = body.value.get("kind") or kind.kind
        options = replace(write_options(exchange.query, exchange.user.name, "", "Create"), dry_run=False)
        return codec.accept(kind, kind, body.value, options, "")
