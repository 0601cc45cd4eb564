"""Kinds that are answered and not stored: reviews of rights and identities, and tokens of service accounts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from aiohttp import web

from unisono.api.decode import encode
from unisono.api.kind import Kind
from unisono.api.kinds import SERVICE_ACCOUNTS
from unisono.api.times import rfc3339
from unisono.apiserver import encoding
from unisono.apiserver.access.service_accounts import ServiceAccountTokens
from unisono.apiserver.access.user import TOKEN_REQUESTS
from unisono.apiserver.admission import Request
from unisono.apiserver.authorization.authorizer import Reviews
from unisono.apiserver.failures import bad_request
from unisono.apiserver.http.exchange import Exchange, content_type, decode_object
from unisono.apiserver.http.query import ResourcePath, write_options
from unisono.apiserver.operations import field_owners
from unisono.apiserver.operations.context import random_uid
from unisono.apiserver.webhooks import Webhooks


class ReviewHandlers:
    """POSTs whose answer is what was sent, completed.

    Args:
        reviews: answers questions.
        accounts: makes tokens.
        hooks: users' webhooks, which see what is asked.
        clock: Unix seconds.
    """

    def __init__(
        self, reviews: Reviews, accounts: ServiceAccountTokens, hooks: Webhooks, clock: Callable[[], float]
    ) -> None:
        self._reviews, self._accounts, self._hooks, self._clock = reviews, accounts, hooks, clock

    async def review(self, exchange: Exchange, kind: Kind[Any], path: ResourcePath) -> web.StreamResponse:
        """POST of a review."""
        if kind.namespaced and not path.namespace:
            raise bad_request("namespace is required on this type")
        request = Request("CREATE", kind, path.namespace, "", None)
        review, warnings = await self._read(exchange, kind, request)
        answer = self._reviews.answer(kind, review, exchange.user, path.namespace, rfc3339(self._clock()))
        return await exchange.send(201, encode(answer), warnings)

    async def token(self, exchange: Exchange, path: ResourcePath) -> web.StreamResponse:
        """POST of a TokenRequest below a service account."""
        account = str(path.name)
        request = Request("CREATE", SERVICE_ACCOUNTS, path.namespace, account, None, subresource="token")
        token_request, warnings = await self._read(exchange, TOKEN_REQUESTS, request)
        answer = self._accounts.issue(token_request, str(path.namespace), account, self._clock())
        answer.metadata.uid = random_uid()
        return await exchange.send(201, encode(answer), warnings)

    async def _read(self, exchange: Exchange, kind: Kind[Any], request: Request) -> tuple[Any, list[str]]:
        """What was sent, as webhooks have changed it, with the owners of its fields; ``request`` says where to."""
        body = decode_object(await exchange.body(), content_type(exchange.request), kind.kind)
        body.value["apiVersion"] = body.value.get("apiVersion") or kind.api_version
        body.value["kind"] = body.value.get("kind") or kind.kind
        agent = exchange.request.headers.get("User-Agent", "")
        options = write_options(exchange.query, exchange.user.name, agent, "Create")
        options = replace(options, track_fields=not exchange.own)
        sent, warnings = encoding.accept(kind, kind, body.value, options, "")
        sent.status = type(sent.status)()  # the answer, which clients cannot send
        field_owners.on_create(kind, kind, sent, body.value, options, rfc3339(self._clock()))
        for entry in sent.metadata.managed_fields or ():
            if request.subresource:
                entry["subresource"] = request.subresource
        if not self._hooks.present:
            return sent, warnings
        request.object, request.shown_as = encoding.json_value(encoding.render(sent)), (kind.api_version, kind.kind)
        request.user, request.groups = exchange.user.name, exchange.user.groups
        warnings += await self._hooks.show(request, dry_run=options.dry_run)
        changed, _ = encoding.accept(kind, kind, request.object, replace(options, field_validation="Ignore"), "")
        changed.status = type(changed.status)()
        return changed, warnings
