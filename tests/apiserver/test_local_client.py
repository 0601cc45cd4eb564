"""The client in the process of the store: users, copies, informers, a consumer that falls behind."""

from __future__ import annotations

import asyncio
from types import MappingProxyType

import pytest

from support.backends import OPTIONS, config_map, opened
from unisono.api.base import ObjectMeta
from unisono.api.core import ConfigMap
from unisono.api.kinds import CONFIG_MAPS
from unisono.apiserver.admission import Admission
from unisono.apiserver.storage.objects import Retention
from unisono.errors import Gone
from unisono.kube.informer import Informer


def settings(name, **data):
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data or None)


async def test_the_kind_is_filled_in_and_the_user_is_known():
    seen = []
    admission = Admission(checking={"configmaps": [lambda request, view: seen.append(request.user)]})
    async with opened(admission=admission) as backend:
        client = backend.client(user="system:scheduler")
        made = await client.create(CONFIG_MAPS, settings("a"))
        assert (made.api_version, made.kind) == ("v1", "ConfigMap")
        await client.patch(CONFIG_MAPS, "a", MappingProxyType({"data": {"k": "v"}}), namespace="default")
        await client.delete(CONFIG_MAPS, "a", "default")
        assert seen == ["system:scheduler"] * 3
        await client.close()


async def test_watchers_get_copies_of_their_own():
    async with opened() as backend:
        client = backend.client()
        since = str(backend.store.revision)
        await client.create(CONFIG_MAPS, settings("a", k="v"))
        first, second = [client.watch(CONFIG_MAPS, resource_version=since) for _ in range(2)]
        one = await anext(first)
        one.object.data["k"] = "changed"
        assert (await anext(second)).object.data == {"k": "v"}


async def test_a_consumer_that_falls_behind_lists_again():
    async with opened(retention=Retention(events=10, seconds=0)) as backend:
        client = backend.client()
        await client.create(CONFIG_MAPS, settings("a"))
        stream = client.watch(CONFIG_MAPS, resource_version=str(backend.store.revision))
        await client.patch(CONFIG_MAPS, "a", {"data": {"n": "0"}}, namespace="default")
        assert (await anext(stream)).type == "MODIFIED"
        for i in range(1, 50):
            await client.patch(CONFIG_MAPS, "a", {"data": {"n": str(i)}}, namespace="default")
        with pytest.raises(Gone, match="too old resource version"):
            await anext(stream)
        listing = await client.list(CONFIG_MAPS, "default")
        assert listing.items[0].data == {"n": "49"}
        assert listing.resource_version == str(backend.store.revision)


async def test_an_informer_follows_the_store():
    async with opened() as backend:
        await backend.service.create(CONFIG_MAPS, "default", config_map("before"), OPTIONS)
        informer = Informer(backend.client(), CONFIG_MAPS)
        told = asyncio.Queue()
        informer.on_change(lambda kind, new, old: told.put_nowait(kind))
        running = asyncio.ensure_future(informer.run())
        try:
            async with asyncio.timeout(300):
                await informer.synced.wait()
                assert informer.get("default/before") is not None
                while not told.empty():
                    told.get_nowait()
                await backend.service.create(CONFIG_MAPS, "default", config_map("later"), OPTIONS)
                await told.get()
            assert informer.get("default/later").metadata.name == "later"
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
