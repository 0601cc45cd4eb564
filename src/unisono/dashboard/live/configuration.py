"""The scheduler's configuration that is in force, as far as a viewer may read it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unisono.api.groups import access
from unisono.api.kinds import CONFIG_MAPS, NAMESPACES
from unisono.apiserver.access.user import SELF_SUBJECT_ACCESS_REVIEWS, SELF_SUBJECT_REVIEWS
from unisono.dashboard.views.wire import ConfigurationView
from unisono.engine.config_file.reader import DEFAULT_TEXT
from unisono.errors import ApiError
from unisono.install.workloads import NAMESPACE
from unisono.scheduler.settings import INSTALLED_NAME
from unisono.simulator.forecast.live import configuration_in_maps

if TYPE_CHECKING:
    from unisono.api.kind import Kind
    from unisono.kube.client import Client
    from unisono.kube.http import HttpClient
    from unisono.sdk.fixes.fix import Operation

# What a viewer may do, asked of the API server with the viewer's own credentials.

# Questions that are asked at the same time.
_AT_ONCE = 16
MOST_NAMESPACES = 50
"""Namespaces that are looked at one by one, for viewers who may not list all of a kind."""

Scope = tuple[str | None, ...]
"""Where a kind may be read: ``(None,)`` everywhere, else in these namespaces; empty nowhere."""
EVERYWHERE: Scope = (None,)
_VERBS = {"patch": ("patch",), "create": ("create",), "delete": ("delete",), "replace": ("get", "delete", "create")}
_ACCOUNT = "system:serviceaccount:"


async def who(client: Client) -> access.UserInfo:
    """The user whose credentials these are.

    Raises:
        ApiError: the server does not accept them.
    """
    return (await client.create(SELF_SUBJECT_REVIEWS, access.SelfSubjectReview())).status.user_info


async def may(
    client: Client, verb: str, kind: Kind[Any], namespace: str | None = None, name: str = "", subresource: str = ""
) -> bool:
    """Whether the viewer may do this; an empty namespace asks for all of them."""
    asked = access.ResourceAttributes(
        verb=verb,
        group=kind.group or None,
        resource=kind.plural,
        namespace=(namespace or None) if kind.namespaced else None,
        name=name or None,
        subresource=subresource or None,
    )
    review = access.SelfSubjectAccessReview(spec=access.SelfSubjectAccessReviewSpec(resource_attributes=asked))
    return bool((await client.create(SELF_SUBJECT_ACCESS_REVIEWS, review)).status.allowed)


async def may_list_in(client: Client, resource: str, namespace: str | None) -> bool:
    """Whether the viewer may list objects of a kind (``plural.group``) in a namespace; None asks for all of them.

    Raises:
        ApiError: the server cannot answer.
    """
    plural, _, group = resource.partition(".")
    asked = access.ResourceAttributes(verb="list", group=group or None, resource=plural, namespace=namespace)
    review = access.SelfSubjectAccessReview(spec=access.SelfSubjectAccessReviewSpec(resource_attributes=asked))
    return bool((await client.create(SELF_SUBJECT_ACCESS_REVIEWS, review)).status.allowed)


async def may_list(client: Client, resource: str, namespaces: Sequence[str]) -> Scope:
    """Where the viewer may list objects of a kind that is not looked at (``plural.group``).

    Raises:
        ApiError: the server cannot answer.
    """
    if await may_list_in(client, resource, None):
        return EVERYWHERE
    looked = namespaces[:MOST_NAMESPACES]
    answers = await asyncio.gather(*(may_list_in(client, resource, name) for name in looked))
    return tuple(name for name, granted in zip(looked, answers, strict=True) if granted)


async def may_carry_out(client: Client, operation: Operation) -> bool:
    """Whether the viewer may send an operation of a fix."""
    asked = (
        may(client, verb, operation.kind, operation.namespace, operation.name, operation.subresource)
        for verb in _VERBS[operation.verb]
    )
    return all(await asyncio.gather(*asked))


async def namespaces_of(client: Client, user: str, named: Iterable[str]) -> list[str]:
    """Namespaces to look at: all, where the viewer may list them, else those that were named and an account's own."""
    try:
        return sorted(each.metadata.name for each in (await client.list(NAMESPACES)).items)
    except ApiError as error:
        if error.code == 401:
            raise
    own = [user.removeprefix(_ACCOUNT).partition(":")[0]] if user.startswith(_ACCOUNT) else []
    return list(dict.fromkeys(name for name in (*own, *named) if name))[:MOST_NAMESPACES]


async def scopes(client: HttpClient, kinds: Sequence[Kind[Any]], namespaces: Sequence[str]) -> dict[str, Scope]:
    """Where the viewer may list and watch each kind, by resource.

    Raises:
        ApiError: the server cannot answer, or does not accept the credentials any more.
    """
    turns = asyncio.Semaphore(_AT_ONCE)

    async def reads(kind: Kind[Any], namespace: str | None) -> bool:
        async with turns:
            return await may(client, "list", kind, namespace) and await may(client, "watch", kind, namespace)

    async def scope(kind: Kind[Any]) -> Scope:
        if await reads(kind, None):
            return EVERYWHERE
        if not kind.namespaced:
            return ()
        answers = await asyncio.gather(*(reads(kind, name) for name in namespaces[:MOST_NAMESPACES]))
        return tuple(name for name, allowed in zip(namespaces, answers, strict=False) if allowed)

    return dict(zip((kind.resource for kind in kinds), await asyncio.gather(*map(scope, kinds)), strict=True))


DEFAULT = "the default configuration"
_HIDDEN = f"{DEFAULT}: you may not read the one in force"


@dataclass(frozen=True, slots=True)
class ConfigurationPlaces:
    """Where the scheduler's configuration is looked for.

    Attributes:
        namespace: of the installation.
        file: of the scheduler on this machine; None where it has none, or runs elsewhere.
    """

    namespace: str = NAMESPACE
    file: Path | None = None


async def configuration_of(client: Client, places: ConfigurationPlaces) -> ConfigurationView:
    """What the scheduler follows, in its own order: the ConfigMap of Volcano's users, the installation's, or its file.

    Args:
        client: with the viewer's credentials.
        places: where it is looked for.
    """
    # On one machine the file takes the installation's place, and is for whom that would be for.
    configuration, where = await configuration_in_maps(client, () if places.file is not None else (places.namespace,))
    if configuration is not None:
        return ConfigurationView(text=configuration.text, name=configuration.name)
    hidden = bool(where)
    if places.file is not None and not hidden:
        try:
            if await may(client, "get", CONFIG_MAPS, places.namespace, INSTALLED_NAME):
                text = await asyncio.to_thread(places.file.read_text, encoding="utf-8")
                return ConfigurationView(text=text, name=str(places.file))
            hidden = True
        except (ApiError, OSError, UnicodeDecodeError):
            hidden = True
    return ConfigurationView(text=DEFAULT_TEXT, name=_HIDDEN if hidden else DEFAULT, known=not hidden)
