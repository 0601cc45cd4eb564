"""The first look at a cluster: pods come last and are kept once for all viewers; the page is told how far it is."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.dashboards import Setting
from unisono.api.core import Pod, PodSpec
from unisono.api.documents import apply_merge_patch
from unisono.api.resources import pod_requests
from unisono.dashboard.live.jobs import Pool
from unisono.dashboard.views.nodes import requests_of

AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]),
    st.sampled_from(["1", "250m", "2Gi", "1.5", 1, 2.5]),
    max_size=3,
)
CONTAINER = st.fixed_dictionaries(
    {"name": st.just("c")},
    optional={"resources": st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS})},
)
SPECS = st.fixed_dictionaries(
    {"containers": st.lists(CONTAINER, max_size=3)},
    optional={
        "initContainers": st.lists(CONTAINER, max_size=2),
        "overhead": AMOUNTS,
        "resources": st.fixed_dictionaries({}, optional={"requests": AMOUNTS}),
    },
)


@given(st.lists(SPECS, max_size=6))
def test_what_pods_ask_for_is_the_same_with_and_without_memory(specs: list[dict[str, Any]]) -> None:
    for each in [*specs, *specs]:
        spec = msgspec.convert(each, PodSpec)
        assert requests_of(spec) == pod_requests(spec)


def a_pod(uid: str = "u", version: str = "1", **spec: Any) -> Pod:
    container = {"name": "main", "env": [{"name": "A", "value": uid}], "resources": {"requests": {"cpu": "1"}}}
    value = {
        "metadata": {"name": uid, "uid": uid, "resourceVersion": version, "managedFields": [{"manager": "m"}]},
        "spec": {"containers": [container], "nodeName": "n1", "tolerations": [{"key": "k"}], **spec},
        "status": {"phase": "Running"},
    }
    return msgspec.convert(value, Pod)


def test_the_same_version_of_a_pod_is_kept_once_and_only_while_somebody_holds_it() -> None:
    pool = Pool()
    first, second = pool.share(a_pod()), pool.share(a_pod())
    assert first is second
    assert pool.share(a_pod(version="2")) is not first
    del first, second
    gc.collect()
    assert len(pool) == 0


def test_what_views_show_of_a_pod_is_left_and_containers_of_a_template_are_shared() -> None:
    pool = Pool()
    one, other = pool.share(a_pod("one")), pool.share(a_pod("other"))
    assert (one.metadata.name, one.spec.node_name, one.status.phase) == ("one", "n1", "Running")
    assert (one.metadata.managed_fields, one.spec.tolerations) == (None, None)
    assert (one.spec.containers or [])[0] is (other.spec.containers or [])[0]
    assert requests_of(one.spec) == {"cpu": 1000}


@pytest.mark.parametrize("missing", ["uid", "resourceVersion"])
def test_a_pod_that_nothing_tells_apart_is_not_shared(missing: str) -> None:
    def bare() -> Pod:
        value = msgspec.to_builtins(a_pod())
        del value["metadata"][missing]
        return msgspec.convert(value, Pod)

    pool = Pool()
    assert pool.share(bare()) is not pool.share(bare())


async def test_a_viewer_gets_no_pod_of_the_pool_that_the_server_did_not_send(two_teams: Setting) -> None:
    """The pool has pods of all teams, once an administrator has looked."""
    admin, viewer = two_teams.browser(), two_teams.browser()
    await admin.sign_in(code=two_teams.dashboard.link().partition("#code=")[2])
    everything = await admin.view("/api/views/jobs")
    assert everything["total"] == 2
    assert (await viewer.sign_in(token=await two_teams.viewer(), namespaces=["team-b"])).status == 200
    # Empty at first, and a pool all the same.
    assert len(two_teams.dashboard.sessions._worlds.pool) == 2
    view = await viewer.view("/api/views/jobs")
    assert list(view["rows"]) == ["jobs.batch.volcano.sh/team-a/only-team-a"]
    assert len(two_teams.dashboard.sessions._worlds.pool) == 2
    job = "apiVersion=batch.volcano.sh/v1alpha1&kind=Job&namespace={0}&name=only-{0}"
    own, others = [await viewer.view(f"/api/views/job?{job.format(name)}") for name in ("team-a", "team-b")]
    assert (list(own["pods"]), others.get("found", False)) == (["only-team-a-worker-0"], False)


async def test_jobs_are_shown_before_pods_are_read_and_the_page_is_told_how_far_it_is(
    two_teams: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unisono.dashboard.live.jobs import Source

    goes_on, look = asyncio.Event(), Source.look

    def held(source: Source, scope: Any) -> None:
        if source.kind.plural == "pods" and not goes_on.is_set():
            asyncio.get_running_loop().call_later(0.05, held, source, scope)
            return
        look(source, scope)

    monkeypatch.setattr(Source, "look", held)
    monkeypatch.setattr(Source, "ready", property(lambda self: _ready(self, goes_on)))
    browser = two_teams.browser()
    await browser.sign_in(code=two_teams.dashboard.link().partition("#code=")[2])
    told, view = [], {}
    async for event, data in browser.events("/api/views/jobs"):
        if event == "reading":
            told.append(data)
        else:
            view = data if event == "view" else apply_merge_patch(view, data)
        if len(view.get("rows", {})) == 2 and told and not view.get("ready"):
            goes_on.set()
        if view.get("ready"):
            break
    assert goes_on.is_set()
    assert told[-1].startswith(("Reading the cluster: ", "Asking what")) or told[-1] == ""
    assert any("objects" in each for each in told)


def _ready(source: Any, goes_on: asyncio.Event) -> bool:
    if source.kind.plural == "pods" and not goes_on.is_set():
        return False
    return all(informer.synced.is_set() for informer, _ in source._running.values())
