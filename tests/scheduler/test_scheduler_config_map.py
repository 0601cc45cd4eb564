"""The ConfigMap that holds the scheduler's configuration, and what is told of it, on the object and in the Lease."""

from __future__ import annotations

import asyncio
from hashlib import sha256

import pytest
from scheduler_world import fill, world

from support.memory import MemoryClient
from unisono.api.annotations import CONFIGURATION_DIGEST, CONFIGURATION_ERROR, CONFIGURATION_NOTES, CONFIGURATION_SOURCE
from unisono.api.base import ObjectMeta
from unisono.api.core import ConfigMap
from unisono.api.kinds import CONFIG_MAPS, EVENTS, LEASES
from unisono.errors import ApiError
from unisono.scheduler.settings import FixedConfig, advice

LEASE = "kube-system/unisono-scheduler-cycles"
NAME = "volcano-scheduler-config"
ON = f"ConfigMap/{NAME}"
BINPACK = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: binpack\n"
WRONG = "actions: allocate\ntiers:\n- plugins:\n  - name: gagn\n"


def config_map(text: str | None, namespace: str = "volcano-system", name: str = NAME) -> ConfigMap:
    data = {} if text is None else {"volcano-scheduler.conf": text}
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data)


def told(client: MemoryClient) -> list[tuple[str, str, str]]:
    """Reason, object and text of the events about the configuration."""
    return [
        (event.reason or "", f"{event.involved_object.kind}/{event.involved_object.name}", event.message or "")
        for event in client.objects(EVENTS)
        if (event.reason or "").startswith("Configuration")
    ]


def lease(client: MemoryClient) -> dict[str, str]:
    return dict(client.raw(LEASES, LEASE)["metadata"]["annotations"])


async def test_it_takes_the_place_of_the_file_for_as_long_as_it_exists() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 1})
    client.put(CONFIG_MAPS, config_map(BINPACK))
    source = FixedConfig()
    async with world(client, config=source) as it:
        await it.run(2)
        assert [plugin.name for plugin in it.scheduler.configuration().plugins] == ["gang", "binpack"]
        assert lease(client)[CONFIGURATION_SOURCE] == f"ConfigMap volcano-system/{NAME}"
        client.put(CONFIG_MAPS, config_map("--bind-worker-threads=8\n"))
        await it.run(20)
        assert it.scheduler.configuration().bind_concurrency == 8
        assert "no actions and tiers" in lease(client)[CONFIGURATION_NOTES]
        assert lease(client)[CONFIGURATION_DIGEST] == sha256(b"--bind-worker-threads=8\n").hexdigest()
        client.remove(CONFIG_MAPS, f"volcano-system/{NAME}")
        await it.run(20)
        assert it.scheduler.configuration() is source.poll()
        assert lease(client)[CONFIGURATION_SOURCE] == source.name
        assert CONFIGURATION_NOTES not in lease(client)


async def test_a_mistake_is_an_event_on_it_and_the_configuration_before_it_stays() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 1})
    client.put(CONFIG_MAPS, config_map(BINPACK))
    async with world(client, config=FixedConfig()) as it:
        await it.run(2)
        before = it.scheduler.configuration()
        client.put(CONFIG_MAPS, config_map(WRONG))
        await it.run(20)
        assert it.scheduler.configuration() is before
        (text,) = [text for reason, on, text in told(client) if (reason, on) == ("ConfigurationRefused", ON)]
        assert "volcano-scheduler.conf:4: unknown plug-in gagn; did you mean gang?" in text
        assert "unknown plug-in gagn" in lease(client)[CONFIGURATION_ERROR]
        client.put(CONFIG_MAPS, config_map(None))
        await it.run(20)
        assert "has no key volcano-scheduler.conf" in lease(client)[CONFIGURATION_ERROR]
        client.put(CONFIG_MAPS, config_map(BINPACK + "nodeorder: []\n"))
        await it.run(20)
        assert CONFIGURATION_ERROR not in lease(client)
        assert ("ConfigurationAccepted", ON) in [each[:2] for each in told(client)]


@pytest.mark.parametrize("name", ["volcano-scheduler-configmap", "batch-scheduler-configmap"])
async def test_the_installers_and_the_charts_names_are_read(name: str) -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 1})
    source = FixedConfig()
    async with world(client, config=source, any_release=True) as it:
        await it.run(2)
        client.put(CONFIG_MAPS, config_map(WRONG, name=name))
        await it.run(20)
        assert it.scheduler.configuration() is source.poll()
        assert ("ConfigurationRefused", f"ConfigMap/{name}") in [each[:2] for each in told(client)]
        assert it.scheduler.metrics.config_refused._value.get() == 1.0
        client.put(CONFIG_MAPS, config_map(BINPACK, name=name))
        await it.run(20)
        assert it.scheduler.configuration().tiers[0][1].name == "binpack"
        assert it.scheduler.metrics.config_refused._value.get() == 0.0
        client.remove(CONFIG_MAPS, f"volcano-system/{name}")
        await it.run(20)
        assert it.scheduler.configuration() is source.poll()


async def test_of_several_one_counts_and_the_others_are_told_of() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 1})
    client.put(CONFIG_MAPS, config_map(WRONG, name="volcano-scheduler-configmap"))
    async with world(client, config=FixedConfig()) as it:
        await it.run(2)
        assert "unknown plug-in gagn" in lease(client)[CONFIGURATION_ERROR]
        client.put(CONFIG_MAPS, config_map(BINPACK))
        await it.run(20)
        assert it.scheduler.configuration().tiers[0][1].name == "binpack"
        assert CONFIGURATION_ERROR not in lease(client)
        unused = (
            "ConfigMap volcano-scheduler-configmap has no effect: ConfigMap volcano-system/volcano-scheduler-config"
        )
        assert unused in lease(client)[CONFIGURATION_NOTES]
        client.remove(CONFIG_MAPS, f"volcano-system/{NAME}")
        await it.run(20)
        assert "unknown plug-in gagn" in lease(client)[CONFIGURATION_ERROR]


async def test_a_refused_one_is_told_again_until_it_is_right() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 1})
    client.put(CONFIG_MAPS, config_map(WRONG))
    async with world(client, config=FixedConfig()) as it:
        await it.run(2)

        def counted() -> int:
            return sum(event.count or 1 for event in client.objects(EVENTS) if event.reason == "ConfigurationRefused")

        before = counted()
        await it.run(1300)
        assert counted() > before


async def test_one_of_another_namespace_or_name_means_nothing() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 1})
    client.put(CONFIG_MAPS, config_map(BINPACK, namespace="team"))
    client.put(CONFIG_MAPS, config_map(BINPACK, name="other"))
    source = FixedConfig()
    async with world(client, config=source) as it:
        await it.run(5)
        assert it.scheduler.configuration() is source.poll()


async def test_a_scheduler_that_may_not_read_it_goes_on() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 1})

    def refuse(operation: str, resource: str, *_: str) -> None:
        if resource == "configmaps":
            raise ApiError("no", code=403, reason="Forbidden")

    client.interceptor = refuse
    async with world(client, config=FixedConfig()) as it:
        await it.run(5)
        assert it.scheduler.ready.is_set()
        await asyncio.sleep(0)
        assert None not in it.nodes_of().values()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (config_map(BINPACK), []),
        (config_map(WRONG), ["the scheduler will not use this configuration"]),
        (config_map(None), ["has no key volcano-scheduler.conf"]),
        (config_map(BINPACK, namespace="default"), ["in namespace volcano-system only"]),
        # It takes seconds to read a long one, and everybody may write it: it is not read.
        (config_map(WRONG, namespace="default"), ["in namespace volcano-system only"]),
        (config_map("tiers: []\n"), ["no actions", "no plug-in gang"]),
        (config_map("actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: my.module:Plugin\n"), []),
        (config_map("whatever", name="mine"), []),
        (config_map(WRONG, name="volcano-scheduler-configmap"), ["the scheduler will not use this configuration"]),
        (config_map(BINPACK, name="x-scheduler-configmap"), ["give x-scheduler-configmap one of these names"]),
        (config_map(WRONG, name="unisono-scheduler"), []),
    ],
)
def test_what_its_writer_is_told(written: ConfigMap, expected: list[str]) -> None:
    found = advice(written)
    assert len(found) == len(expected)
    assert all(part in text for part, text in zip(expected, found, strict=True))


@pytest.mark.parametrize(("home", "told"), [("unisono-system", 1), ("", 0), ("other", 0)])
def test_the_configuration_of_an_installation_is_read_in_its_namespace_alone(home: str, told: int) -> None:
    written = config_map(None, namespace="unisono-system", name="unisono-scheduler")
    written.data = {"unisono-scheduler.conf": WRONG}
    assert len(advice(written, home)) == told
