"""Which configuration of the scheduler a forecast of a live cluster goes by."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.backends import opened
from unisono.api.annotations import CONFIGURATION_SOURCE, CYCLES_LEASE
from unisono.api.base import ObjectMeta
from unisono.api.core import ConfigMap, Lease, Namespace
from unisono.api.keys import CONFIG_MAP_KEY, CONFIG_MAP_NAMES, CONFIG_MAP_NAMESPACE
from unisono.api.kinds import CONFIG_MAPS, LEASES, NAMESPACES
from unisono.engine.config_file.reader import DEFAULT_TEXT
from unisono.scheduler.settings import INSTALLED_KEY, INSTALLED_NAME
from unisono.simulator.forecast.live import configuration_in_force

VOLCANO = f"ConfigMap {CONFIG_MAP_NAMESPACE}/{CONFIG_MAP_NAMES[0]}"
HERE = "unisono-system"


@pytest.mark.parametrize(
    ("there", "name", "text", "hidden"),
    [
        pytest.param((), "default configuration", DEFAULT_TEXT, "", id="nothing: the default one"),
        pytest.param(("file",), "FILE", "of the file", "", id="the file that the scheduler names"),
        pytest.param(("lost",), "default configuration", DEFAULT_TEXT, "FILE", id="a file that is elsewhere"),
        pytest.param(("installed",), f"ConfigMap {HERE}/{INSTALLED_NAME}", "of the installation", "", id="installed"),
        pytest.param(("file", "installed", "volcano"), VOLCANO, "of Volcano's users", "", id="that of Volcano's users"),
    ],
)
async def test_the_configuration_in_force_is_looked_for_where_the_scheduler_does(
    tmp_path: Path, there: tuple[str, ...], name: str, text: str, hidden: str
) -> None:
    file = tmp_path / "scheduler.conf"
    async with opened(tmp_path / "state.db") as backend:
        client = backend.client()
        await client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name=HERE)))
        if "volcano" in there:
            meta = ObjectMeta(name=CONFIG_MAP_NAMES[0], namespace=CONFIG_MAP_NAMESPACE)
            await client.create(CONFIG_MAPS, ConfigMap(metadata=meta, data={CONFIG_MAP_KEY: "of Volcano's users"}))
        if "installed" in there:
            meta = ObjectMeta(name=INSTALLED_NAME, namespace=HERE)
            await client.create(CONFIG_MAPS, ConfigMap(metadata=meta, data={INSTALLED_KEY: "of the installation"}))
        if "file" in there:
            file.write_text("of the file")
        if {"file", "lost"} & set(there):
            meta = ObjectMeta(name=CYCLES_LEASE, namespace="kube-system", annotations={CONFIGURATION_SOURCE: str(file)})
            await client.create(LEASES, Lease(metadata=meta))
        found = await configuration_in_force(client, (HERE,))
    assert (found.name, found.text) == (name.replace("FILE", str(file)), text)
    assert found.hidden == hidden.replace("FILE", str(file))
