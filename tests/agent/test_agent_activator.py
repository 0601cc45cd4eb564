"""Pods of Knative's Services on one machine follow their requests: averages, rules, and what the controller does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from support.memory import MemoryClient
from support.virtual_clock import VirtualClock, settle
from unisono.agent.activator import controller as module
from unisono.agent.activator.controller import LOOK_SECONDS, ActivatorController
from unisono.agent.activator.requests import LONGEST_WINDOW, Load, Route, Rules, Scaler, rules_of
from unisono.agent.network.names import SERVICE_NETWORK, AddressBook, Peer, shared_lines
from unisono.api.annotations import SERVICE_ADDRESS
from unisono.api.base import ObjectMeta
from unisono.api.core import Pod, Service
from unisono.api.groups.apps import Deployment
from unisono.api.kind_families import DEPLOYMENTS, KNATIVE_SERVICES
from unisono.api.kinds import SERVICES
from unisono.api.knative import KnativeService
from unisono.kube.controller import Manager
from unisono.kube.listening import Guests

# ---- load


@pytest.mark.parametrize(
    ("steps", "at", "concurrency", "rate"),
    [
        # Times at which requests begin (+) and end (-), when is asked, averages over 10 seconds.
        ([], 20.0, 0.0, 0.0),
        ([(10.0, "+")], 20.0, 1.0, 0.1),
        ([(9.5, "+")], 20.5, 1.0, 0.0),
        ([(15.0, "+")], 20.0, 0.5, 0.1),
        ([(15.0, "+"), (15.0, "+"), (17.5, "-")], 20.0, 0.75, 0.2),
        ([(11.2, "+"), (11.7, "-"), (12.0, "+"), (12.5, "-")], 20.0, 0.1, 0.2),
        # What is older than the window counts for nothing.
        ([(1.0, "+"), (9.0, "-")], 20.0, 0.0, 0.0),
        # A service that is younger than the window.
        ([(0.0, "+")], 4.0, 1.0, 0.25),
        ([(0.0, "+")], 3 * LONGEST_WINDOW, 1.0, 0.0),
    ],
)
def test_averages(steps: list[tuple[float, str]], at: float, concurrency: float, rate: float) -> None:
    load = Load(0.0)
    for when, what in steps:
        (load.begin if what == "+" else load.end)(when)
    assert load.concurrency(at, 10.0) == pytest.approx(concurrency)
    assert load.rate(at, 10.0) == pytest.approx(rate)


def test_idle_counts_from_the_last_answer() -> None:
    load = Load(5.0)
    assert load.idle(8.0) == 3.0
    load.begin(10.0)
    assert load.idle(50.0) == 0.0
    load.end(60.0)
    assert load.idle(62.0) == 2.0


@given(st.lists(st.tuples(st.floats(0, 500), st.booleans()), max_size=60), st.floats(1, 60))
def test_an_average_is_no_more_than_the_most_at_a_time(steps: list[tuple[float, bool]], window: float) -> None:
    load, now, most = Load(0.0), 0.0, 0
    for pause, begins in steps:
        now += pause
        if begins:
            load.begin(now)
        elif load.count:
            load.end(now)
        most = max(most, load.count)
        # A window ends within a second, which counts whole.
        assert -1e-6 <= load.concurrency(now, window) <= most * (window + 1) / window + 1e-6
    assert len(load._seconds) <= LONGEST_WINDOW + 2


# ---- scaling


def knative(notes: dict[str, str] | None = None, generation: int = 1, **spec: Any) -> KnativeService:
    written = {f"autoscaling.knative.dev/{key}": text for key, text in (notes or {}).items()}
    value = {
        "metadata": {"name": "s", "namespace": "default", "uid": "u-1", "generation": generation},
        "spec": {
            "template": {
                "metadata": {"annotations": written},
                "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
            }
        },
    }
    return msgspec.convert(value, KnativeService)


@pytest.mark.parametrize(
    ("notes", "limit", "wanted"),
    [
        ({}, None, Rules(target=70.0)),
        ({}, 0, Rules(target=70.0)),
        ({}, 10, Rules(target=7.0)),
        ({"target": "50"}, 10, Rules(target=7.0)),
        ({"target": "5"}, 10, Rules(target=3.5)),
        ({"target": "5", "target-utilization-percentage": "100"}, None, Rules(target=5.0)),
        ({"metric": "rps"}, 10, Rules(target=140.0, by_rate=True)),
        ({"metric": "rps", "target": "10"}, None, Rules(target=7.0, by_rate=True)),
        ({"window": "2s"}, None, Rules(target=70.0, window=6.0)),
        ({"window": "24h"}, None, Rules(target=70.0, window=3600.0)),
        ({"min-scale": "2", "max-scale": "1"}, None, Rules(target=70.0, least=2, most=2)),
        ({"minScale": "1", "maxScale": "5"}, None, Rules(target=70.0, least=1, most=5)),
        ({"initial-scale": "3"}, None, Rules(target=70.0, initial=3)),
        ({"scale-to-zero-pod-retention-period": "1m"}, None, Rules(target=70.0, retention=60.0)),
        ({"target": "many", "window": "x", "min-scale": "-1"}, None, Rules(target=70.0)),
        ({"target": "0.001"}, None, Rules(target=0.01)),
    ],
)
def test_what_a_service_asks_for(notes: dict[str, str], limit: int | None, wanted: Rules) -> None:
    found = rules_of(knative(notes, **({} if limit is None else {"containerConcurrency": limit})))
    assert found == wanted


def steady(count: int, seconds: float) -> Load:
    load = Load(0.0)
    for _ in range(count):
        load.begin(0.0)
    load.concurrency(seconds, 1.0)
    return load


@pytest.mark.parametrize(
    ("count", "rules", "ready", "wanted", "panics"),
    [
        (7, Rules(7.0), 1, 1, False),
        (8, Rules(7.0), 1, 2, True),
        (13, Rules(7.0), 2, 2, False),
        (8, Rules(7.0), 2, 2, False),
        (70, Rules(7.0, most=5), 1, 5, True),
        (1, Rules(7.0), 0, 1, False),
        (0, Rules(7.0), 3, 1, False),
        (0, Rules(7.0, least=2), 1, 2, False),
        # Half of the pods at a time.
        (7, Rules(7.0), 12, 6, False),
    ],
)
def test_pods_for_a_steady_load(count: int, rules: Rules, ready: int, wanted: int, panics: bool) -> None:
    scaler = Scaler()
    load = steady(count, 600.0)
    assert scaler.wanted(600.0, load, rules, ready, proven=True) == wanted
    assert scaler.panics is panics


def test_the_last_pod_goes_after_the_window_and_what_it_is_kept_for() -> None:
    load, scaler, rules = Load(0.0), Scaler(), Rules(7.0, window=60.0, retention=30.0)
    load.begin(10.0)
    load.end(20.0)
    answers = {at: scaler.wanted(at, load, rules, 1, proven=True) for at in (50.0, 100.0, 109.0, 110.5)}
    assert answers == {50.0: 1, 100.0: 1, 109.0: 1, 110.5: 0}
    assert scaler.wanted(500.0, load, rules, 0, proven=False) == 1
    load.begin(600.0)
    assert scaler.wanted(600.0, load, rules, 0, proven=True) == 1


def test_pods_stay_through_a_panic() -> None:
    load, scaler, rules = Load(0.0), Scaler(), Rules(1.0, window=60.0)
    for _ in range(10):
        load.begin(100.0)
    assert scaler.wanted(106.0, load, rules, 1, proven=True) == 10
    for _ in range(10):
        load.end(107.0)
    # The load is over; what came is not taken back while there is a panic, and then step by step.
    assert scaler.wanted(150.0, load, rules, 10, proven=True) == 10
    assert scaler.wanted(170.0, load, rules, 10, proven=True) == 5
    assert scaler.wanted(172.0, load, rules, 5, proven=True) == 2


@given(
    st.lists(st.tuples(st.floats(0.1, 30), st.integers(-5, 20), st.integers(0, 40)), max_size=40),
    st.integers(0, 3),
    st.integers(1, 30),
)
def test_the_number_of_pods_stays_in_its_bounds_and_ends(
    steps: list[tuple[float, int, int]], least: int, most: int
) -> None:
    load, scaler, now = Load(0.0), Scaler(), 0.0
    rules = Rules(2.0, window=10.0, least=min(least, most), most=most)
    for pause, change, ready in steps:
        now += pause
        for _ in range(abs(change)):
            if change > 0:
                load.begin(now)
            elif load.count:
                load.end(now)
        wanted = scaler.wanted(now, load, rules, ready, proven=True)
        assert rules.least <= wanted <= rules.most
        assert wanted or not load.count
    while load.count:
        load.end(now)
    pods = most
    for _ in range(60):
        now += 2.0
        pods = scaler.wanted(now, load, rules, pods, proven=True)
    assert pods == rules.least


# ---- names


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("127.192.0.1:80", "127.192.0.1"),
        # Anybody may write an annotation: nothing but an address of this machine becomes a line.
        ("10.0.0.1:80", None),
        ("127.0.0.1\n1.2.3.4 example.com:80", None),
        ("", None),
    ],
)
def test_a_name_leads_to_where_requests_are_taken(text: str, taken: str | None) -> None:
    meta = ObjectMeta(name="s", namespace="default", annotations={SERVICE_ADDRESS: text})
    service = msgspec.convert({"metadata": {}, "spec": {"selector": {"a": "b"}}}, Service)
    service.metadata = meta
    peers = [Peer("default", "127.64.0.1", "p", labels={"a": "b"})]
    (line,) = shared_lines("default", peers, [service])
    assert line.split()[0] == (taken or "127.64.0.1")
    assert line.split()[1:] == ["s", "s.default", "s.default.svc", "s.default.svc.cluster.local"]


# ---- the controller


class Nobody:
    """Listens nowhere."""

    def __init__(self, refuse: tuple[int, ...] = ()) -> None:
        self.refuse, self.open = refuse, []
        self.guests: list[Guests] = []

    async def __call__(self, app: web.Application, host: str, port: int, guests: Guests) -> Nobody:
        if port in self.refuse:
            raise PermissionError(13, "Permission denied")
        self.open.append(f"{host}:{port}")
        self.guests.append(guests)
        return self

    async def close(self) -> None:
        self.open.pop()


class Recorder:
    def __init__(self) -> None:
        self.said: list[str] = []

    def event(self, obj: object, type: str, reason: str, message: str) -> None:
        self.said.append(f"{reason}: {message}")


class World:
    def __init__(self, root: Path, refuse: tuple[int, ...] = ()) -> None:
        self.clock = VirtualClock()
        self.client = MemoryClient(self.clock)
        self.pods: list[Pod] = []
        self.recorder, self.listening = Recorder(), Nobody(refuse)
        book = AddressBook(root / "services.json", SERVICE_NETWORK)
        self.controller = ActivatorController(self.recorder, book, lambda: self.pods, self.listening)  # type: ignore[arg-type]

    async def __aenter__(self) -> World:
        self.task = asyncio.create_task(Manager(self.client, clock=self.clock).run([self.controller]))
        await settle()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.controller.close()

    async def make(self, service: KnativeService) -> None:
        labels = {"serving.knative.dev/service": "s"}
        self.client.put(KNATIVE_SERVICES, service)
        meta = ObjectMeta(name="s-deployment", namespace="default", labels=labels)
        self.client.put(DEPLOYMENTS, Deployment(metadata=meta))
        self.client.put(SERVICES, Service(metadata=ObjectMeta(name="s", namespace="default", labels=labels)))
        await self.clock.advance(LOOK_SECONDS)

    def ready(self, *names: str) -> None:
        self.pods = [
            msgspec.convert(
                {
                    "metadata": {
                        "name": name,
                        "namespace": "default",
                        "uid": name,
                        "labels": {"serving.knative.dev/service": "s"},
                    },
                    "spec": {},
                    "status": {
                        "phase": "Running",
                        "podIP": "127.64.0.9",
                        "conditions": [{"type": "Ready", "status": "True"}],
                    },
                },
                Pod,
            )
            for name in names
        ]
        for pod in self.pods:
            self.controller.pod_changed("MODIFIED", pod)

    async def proven(self, service: KnativeService) -> None:
        service.status.latest_ready_revision_name = "s-00001"
        self.client.put(KNATIVE_SERVICES, service)
        await settle()

    @property
    def replicas(self) -> int | None:
        found = self.client.find(DEPLOYMENTS, "default/s-deployment")
        assert found is not None
        return found.spec.replicas

    @property
    def route(self) -> Route:
        return self.controller._served["default/s"].route


async def test_a_service_sleeps_when_nobody_asks_and_wakes_when_somebody_does(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        service = knative({"target": "1", "target-utilization-percentage": "100"})
        await world.make(service)
        found = world.client.find(SERVICES, "default/s")
        assert found is not None
        assert (found.metadata.annotations or {})[SERVICE_ADDRESS] == world.listening.open[0]
        # One that was never ready keeps its pod, whatever its load.
        await world.clock.advance(300)
        assert world.replicas is None
        world.ready("a")
        await world.proven(service)
        await world.clock.advance(2)
        assert world.replicas == 0
        assert world.recorder.said[-1].startswith("Scaled: replicas: 1 -> 0, no request for 30")
        world.ready()
        await world.clock.advance(3600)
        assert world.replicas == 0
        # As a request does.
        world.route.load.begin(world.clock.monotonic())
        world.route._wake()
        await settle()
        assert world.replicas == 1
        assert world.recorder.said[-1] == "Scaled: replicas: 0 -> 1, 1 request waiting for a pod"
        for _ in range(4):
            world.route.load.begin(world.clock.monotonic())
        world.ready("a")
        assert world.route.ready == 1
        await world.clock.advance(6)
        assert world.replicas == 5
        for _ in range(5):
            world.route.load.end(world.clock.monotonic())
        world.ready(*"abcde")
        await world.clock.advance(300)
        assert world.replicas in (1, 2)
        world.ready("a")
        await world.clock.advance(60)
        assert world.replicas == 0


async def test_a_new_revision_starts_a_pod_to_be_tried(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        service = knative()
        await world.make(service)
        await world.proven(service)
        await world.clock.advance(120)
        assert world.replicas == 0
        await world.client.patch(KNATIVE_SERVICES, "s", {"metadata": {"generation": 2}}, namespace="default")
        world.client.put(KNATIVE_SERVICES, _second(service))
        await world.clock.advance(2)
        assert world.replicas == 1


def _second(service: KnativeService) -> KnativeService:
    made = msgspec.convert(msgspec.to_builtins(service), KnativeService)
    made.metadata.generation = 2
    return made


async def test_what_an_autoscaler_scales_is_left_to_it(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        service = knative({"class": "hpa.autoscaling.knative.dev", "target": "10"})
        await world.make(service)
        await world.proven(service)
        await world.clock.advance(600)
        assert world.replicas is None
        assert world.listening.open


async def test_without_the_right_to_port_80_another_one_is_taken(tmp_path: Path) -> None:
    async with World(tmp_path, refuse=(80,)) as world:
        await world.make(knative())
        assert world.listening.open[0].endswith(":8012")


async def test_without_any_port_it_is_told(tmp_path: Path) -> None:
    async with World(tmp_path, refuse=(80, 8012)) as world:
        await world.make(knative())
        assert world.recorder.said[0].startswith("NoAddress: its requests cannot be taken at 127.")
        assert world.recorder.said[0].endswith("Permission denied")
        assert world.replicas is None


async def test_a_service_that_goes_gives_its_address_back(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        await world.make(knative())
        assert world.listening.open
        await world.client.delete(KNATIVE_SERVICES, "s", "default")
        await settle()
        assert not world.listening.open
        assert world.controller._book.get("u-1") is None


async def test_services_without_end_take_neither_sockets_nor_connections_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are taken by the control plane's own process."""
    monkeypatch.setattr(module, "MOST_SERVICES", 3)
    async with World(tmp_path) as world:
        for namespace, count in (("eve", 5), ("bob", 1)):
            for number in range(count):
                service = knative()
                service.metadata = ObjectMeta(name=f"s{number}", namespace=namespace, uid=f"{namespace}-{number}")
                world.client.put(KNATIVE_SERVICES, service)
        await settle()
        assert len(world.listening.open) == 4
        assert len({id(each) for each in world.listening.guests}) == 2
        assert "NoAddress: requests of at most 3 services of a namespace" in world.recorder.said[0]
        await world.client.delete(KNATIVE_SERVICES, "s0", "eve")
        await world.clock.advance(60)
        assert len(world.listening.open) == 4, "the next one has the place"


async def test_a_service_of_another_s_name_is_left_alone(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        world.client.put(SERVICES, Service(metadata=ObjectMeta(name="s", namespace="default")))
        world.client.put(DEPLOYMENTS, Deployment(metadata=ObjectMeta(name="s-deployment", namespace="default")))
        service = knative()
        world.client.put(KNATIVE_SERVICES, service)
        await world.proven(service)
        await world.clock.advance(600)
        assert not [write for write in world.client.writes if write.resource != "knativeservices"]
