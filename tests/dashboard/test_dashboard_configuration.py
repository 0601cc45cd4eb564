"""Which configuration of the scheduler a viewer is told of, and what-if with it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.dashboards import Browser, Setting, running
from unisono.dashboard.live.configuration import ConfigurationPlaces
from unisono.engine.config_file.reader import DEFAULT_TEXT

ADMITS = 'actions: "enqueue"\ntiers: [{plugins: [{name: gang}]}]\n'
VOLCANO = 'actions: "enqueue, allocate"\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n'
INSTALLED = ("unisono-system", "unisono-scheduler", "unisono-scheduler.conf", ADMITS)
VOLCANOS = ("volcano-system", "volcano-scheduler-config", "volcano-scheduler.conf", VOLCANO)


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncIterator[Setting]:
    async with running(tmp_path, page=tmp_path) as found:
        yield found


@pytest.fixture
async def filed(tmp_path: Path) -> AsyncIterator[Setting]:
    file = tmp_path / "scheduler.yaml"
    file.write_text(ADMITS)
    folder = tmp_path / "filed"
    folder.mkdir()
    async with running(folder, page=tmp_path, places=ConfigurationPlaces(file=file)) as found:
        yield found


async def stored(setting: Setting, namespace: str, name: str, key: str, text: str) -> None:
    # Volcano's is there from the beginning.
    await setting.admin.request(
        "POST", "/api/v1/namespaces", body=json.dumps({"metadata": {"name": namespace}}).encode()
    )
    await setting.put(f"/api/v1/namespaces/{namespace}/configmaps", metadata={"name": name}, data={key: text})


async def admin(setting: Setting) -> Browser:
    browser = setting.browser()
    assert (await browser.sign_in(code=setting.dashboard.link().partition("#code=")[2])).status == 200
    return browser


async def viewer(setting: Setting) -> Browser:
    await setting.put("/api/v1/namespaces", metadata={"name": "team-a"})
    browser = setting.browser()
    assert (await browser.sign_in(token=await setting.viewer())).status == 200
    return browser


async def told(browser: Browser) -> dict[str, Any]:
    reply = await browser.call("GET", "/api/configuration")
    assert reply.status == 200
    found: dict[str, Any] = reply.json()
    return found


@pytest.mark.parametrize(
    ("maps", "name", "text"),
    [
        ((), "the default configuration", DEFAULT_TEXT),
        ((INSTALLED,), "ConfigMap unisono-system/unisono-scheduler", ADMITS),
        ((VOLCANOS,), "ConfigMap volcano-system/volcano-scheduler-config", VOLCANO),
        # As for the scheduler, Volcano's comes first.
        ((INSTALLED, VOLCANOS), "ConfigMap volcano-system/volcano-scheduler-config", VOLCANO),
    ],
)
async def test_the_configuration_in_force_is_found(
    plain: Setting, maps: tuple[tuple[str, str, str, str], ...], name: str, text: str
) -> None:
    for each in maps:
        await stored(plain, *each)
    found = await told(await admin(plain))
    assert (found["name"], found["text"], found.get("known", True)) == (name, text, True)


async def test_the_file_of_this_machine_is_in_force_until_there_is_volcanos_config_map(filed: Setting) -> None:
    browser = await admin(filed)
    assert (await told(browser))["text"] == ADMITS
    assert (await told(browser))["name"].endswith("scheduler.yaml")
    await stored(filed, *VOLCANOS)
    assert (await told(browser))["text"] == VOLCANO


@pytest.mark.parametrize("file", [False, True])
async def test_who_may_not_read_it_is_told_so_and_sees_nothing_of_it(
    plain: Setting, filed: Setting, *, file: bool
) -> None:
    setting = filed if file else plain
    await stored(setting, *INSTALLED)
    found = await told(await viewer(setting))
    assert found["known"] is False
    assert "may not read" in found["name"]
    assert found["text"] == DEFAULT_TEXT


async def a_waiting_job(setting: Setting) -> None:
    capacity = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    await setting.put("/api/v1/nodes", metadata={"name": "n1"})
    await setting.patch("/api/v1/nodes/n1", {"spec": {"taints": None}})
    await setting.patch(
        "/api/v1/nodes/n1/status",
        {
            "status": {
                "capacity": capacity,
                "allocatable": capacity,
                "conditions": [{"type": "Ready", "status": "True"}],
            }
        },
    )
    queue = "/apis/scheduling.volcano.sh/v1beta1/queues/default/status"
    await setting.patch(queue, {"status": {"state": "Open"}})
    await setting.put("/api/v1/namespaces", metadata={"name": "team"})
    await setting.job("team", "waits")


async def test_what_if_begins_with_the_configuration_in_force(plain: Setting) -> None:
    await a_waiting_job(plain)
    browser = await admin(plain)
    by_default = (await browser.call("POST", "/api/whatif", {"changes": ""})).json()
    assert by_default["configuration"] == "the default configuration"
    [moved] = by_default["moved"]
    assert moved["before"] >= 0
    # One that only admits jobs starts none.
    await stored(plain, *INSTALLED)
    admits = (await browser.call("POST", "/api/whatif", {"changes": ""})).json()
    assert admits["configuration"] == "ConfigMap unisono-system/unisono-scheduler"
    assert [(each["before"], each["after"]) for each in admits["moved"]] == [(-1, -1)]
    changed = (await browser.call("POST", "/api/whatif", {"changes": DEFAULT_TEXT})).json()
    [moved] = changed["moved"]
    assert (moved["before"], moved["after"] >= 0) == (-1, True)


async def test_one_that_the_scheduler_refuses_too_is_told(plain: Setting) -> None:
    await stored(plain, *INSTALLED[:3], 'actions: "fly"\n')
    answer = (await (await admin(plain)).call("POST", "/api/whatif", {"changes": ""})).json()
    assert answer["configuration"].startswith("the default configuration, since the one in force is refused")


@pytest.mark.parametrize(
    "changes",
    [
        'actions: "allocate"\ntiers:\n- plugins: [{name: "evil_module:Plugin"}]\n',
        'tiers:\n- plugins:\n  - name: " evil_module:Plugin"\n',
        'Tiers: []\ntiers:\n- plugins:\n  - &x {Name: gang, name: "evil_module:Plugin"}\n  - *x\n',
        "nodes: []\ntiers: [{plugins: ['evil_module:Plugin']}]\n",
    ],
)
async def test_no_question_brings_code_into_the_dashboard(
    plain: Setting, changes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil_module.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w').close()\nclass Plugin: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    reply = await (await admin(plain)).call("POST", "/api/whatif", {"changes": changes})
    assert (reply.status, "are code" in reply.json()["error"]) == (400, True)
    assert not (tmp_path / "imported").exists()
