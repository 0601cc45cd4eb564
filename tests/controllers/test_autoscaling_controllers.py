"""Autoscalers, ScaledObjects and Knative's Services with the controllers of one machine, on virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from workload_world import LABELS, WorkloadWorld, build, template, workload

from unisono.api.groups.resource_metrics import POD_METRICS, PodMetrics
from unisono.api.kind_families import DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS, KNATIVE_SERVICES, SCALED_OBJECTS
from unisono.api.kinds import PODS, SERVICES
from unisono.controllers.builtin import builtin_controllers
from unisono.controllers.metrics import MetricError
from unisono.controllers.nodes import NodeLifecycleController

SLOW, ADDRESS, QUERY = "http://slow:9090", "http://prometheus:9090", "sum(rate(http_requests_total[1m]))"


SELECTOR = {"matchLabels": LABELS}
WEB = {"kind": "Service", "name": "web"}


class Metrics:
    """A server of metrics; an error is raised, None is no series."""

    def __init__(self) -> None:
        self.value: float | Exception | None = 0.0
        self.asked: list[tuple[str, str]] = []

    async def prometheus(self, address: str, query: str) -> float | None:
        self.asked.append((address, query))
        if address == SLOW:
            await asyncio.Event().wait()
        if isinstance(self.value, Exception):
            raise self.value
        return self.value

    async def redis_length(self, host: str, port: int, database: int, name: str) -> float:
        return await self.prometheus(f"redis://{host}:{port}/{database}", name) or 0.0


class World(WorkloadWorld):
    def __init__(self) -> None:
        super().__init__()
        self.metrics = Metrics()

    def make_controllers(self) -> list[Any]:
        made = builtin_controllers(self.recorder, self.metrics)
        return [each for each in made if not isinstance(each, NodeLifecycleController)]

    def replicas(self, name: str = "web") -> int:
        return int(self.one(DEPLOYMENTS, name).spec.replicas)

    def states(self, kind: Any, name: str) -> dict[str, tuple[str, str]]:
        return {each.type: (each.status, each.reason) for each in self.one(kind, name).status.conditions or ()}

    async def look(self, seconds: float = 31.0) -> None:
        await self.clock.advance(seconds)
        await self.settle()


def prometheus(threshold: str = "1000", **more: str) -> dict[str, Any]:
    metadata = {"serverAddress": ADDRESS, "query": QUERY, "threshold": threshold, **more}
    return {"type": "prometheus", "metadata": metadata}


def scaled(*triggers: dict[str, Any], name: str = "web", notes: dict[str, str] | None = None, **more: Any) -> Any:
    metadata = {"annotations": notes} if notes else None
    given = {"scaleTargetRef": {"name": "web"}, "triggers": list(triggers) or [prometheus()], **more}
    return build(SCALED_OBJECTS, name, metadata=metadata, **given)


async def test_a_server_follows_its_load_between_its_bounds() -> None:
    """The article's ScaledObject: 2 to 20 replicas, 1,000 requests per second each."""
    async with World() as world:
        await world.make(DEPLOYMENTS, workload(DEPLOYMENTS, replicas=1))
        await world.make(SCALED_OBJECTS, scaled(minReplicaCount=2, maxReplicaCount=20, cooldownPeriod=300))
        await world.look()
        assert world.replicas() == 2
        assert world.one(SCALED_OBJECTS).status.hpa_name == "keda-hpa-web"
        assert world.metrics.asked[-1] == (ADDRESS, QUERY)
        world.metrics.value = 7500.0
        await world.look(60)
        assert world.replicas() == 8
        world.metrics.value = 1e9
        await world.look(120)
        assert world.replicas() == 20
        assert world.states(HORIZONTAL_POD_AUTOSCALERS, "keda-hpa-web")["ScalingLimited"] == ("True", "TooManyReplicas")
        world.metrics.value = 0.0
        await world.look(120)
        assert world.replicas() == 20, "a drop waits for five minutes"
        await world.look(300)
        assert world.replicas() == 2
        assert len(world.client.objects(PODS)) == 2


async def test_it_rests_at_zero_and_wakes() -> None:
    async with World() as world:
        await world.make(DEPLOYMENTS, workload(DEPLOYMENTS, replicas=3))
        await world.make(SCALED_OBJECTS, scaled(prometheus("10", activationThreshold="5"), cooldownPeriod=60))
        world.metrics.value = 5.0
        await world.look(100)
        assert world.replicas() == 0, "5 is not more than the activation threshold"
        assert world.states(SCALED_OBJECTS, "web")["Active"] == ("False", "ScalerNotActive")
        assert world.states(HORIZONTAL_POD_AUTOSCALERS, "keda-hpa-web")["ScalingActive"] == ("False", "ScalingDisabled")
        world.metrics.value = 6.0
        await world.look(45)
        assert world.replicas() == 1
        assert world.states(SCALED_OBJECTS, "web")["Active"] == ("True", "ScalerActive")
        assert "Scaled Deployment default/web from 0 to 1" in world.recorder.of("KEDAScaleTargetActivated")


async def test_a_list_of_work_wakes_workers_and_lets_them_rest() -> None:
    """KEDA's Redis list: five entries for each worker unless the trigger says otherwise."""
    work = {"address": "redis.queue:6380", "listName": "work", "databaseIndex": "2", "activationListLength": "3"}
    async with World() as world:
        await world.make(DEPLOYMENTS, workload(DEPLOYMENTS, replicas=0))
        await world.make(SCALED_OBJECTS, scaled({"type": "redis", "metadata": work}, cooldownPeriod=60))
        world.metrics.value = 3.0
        await world.look(60)
        assert world.replicas() == 0
        assert world.metrics.asked[-1] == ("redis://redis.queue:6380/2", "work")
        world.metrics.value = 22.0
        await world.look(60)
        assert world.replicas() == 5
        world.metrics.value = 0.0
        await world.look(400)
        assert world.replicas() == 0


@pytest.mark.parametrize(
    ("kind", "source", "shown"),
    [
        (
            "Object",
            {"describedObject": {"kind": "Service", "name": "web"}, "target": {"type": "Value", "value": "100"}},
            "250",
        ),
        ("External", {"target": {"type": "AverageValue", "averageValue": "100"}}, "125"),
        ("Pods", {"target": {"type": "AverageValue", "averageValue": "100"}}, "125"),
    ],
)
async def test_an_autoscaler_asks_for_metrics_by_the_query_that_it_names(
    kind: str, source: dict[str, Any], shown: str
) -> None:
    async with World() as world:
        await world.make(DEPLOYMENTS, workload(DEPLOYMENTS, replicas=2))
        metric = {"type": kind, kind.lower(): {"metric": {"name": "requests"}, **source}}
        prefix = f"metric-config.{kind.lower()}.requests.prometheus/"
        notes = {f"{prefix}query": QUERY, f"{prefix}prometheus-server": ADDRESS}
        target = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
        given = {"scaleTargetRef": target, "maxReplicas": 9, "metrics": [metric]}
        world.metrics.value = 250.0
        await world.make(
            HORIZONTAL_POD_AUTOSCALERS,
            build(HORIZONTAL_POD_AUTOSCALERS, "hpa", metadata={"annotations": notes}, **given),
        )
        await world.settle()
        status = msgspec.to_builtins(world.one(HORIZONTAL_POD_AUTOSCALERS, "hpa").status)
        assert world.metrics.asked == [(ADDRESS, QUERY)]
        assert shown in str(status["currentMetrics"])
        # 2.5 times as much as the object should have, and as much as 2.5 pods should have.
        assert world.replicas() == (5 if kind == "Object" else 3)
        world.metrics.value = MetricError("http://prometheus:9090 cannot be reached")
        await world.look()
        assert world.states(HORIZONTAL_POD_AUTOSCALERS, "hpa")["ScalingActive"] == ("False", f"FailedGet{kind}Metric")


async def test_a_query_without_a_server_is_told() -> None:
    async with World() as world:
        await world.make(DEPLOYMENTS, workload(DEPLOYMENTS, replicas=1))
        metric = {"type": "External", "external": {"metric": {"name": "x"}, "target": {"type": "Value", "value": "1"}}}
        target = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
        for name, notes in (("no-server", {"metric-config.external.x.prometheus/query": "x"}), ("no-query", {})):
            given = {"scaleTargetRef": target, "maxReplicas": 9, "metrics": [metric]}
            one = build(HORIZONTAL_POD_AUTOSCALERS, name, metadata={"annotations": notes}, **given)
            await world.make(HORIZONTAL_POD_AUTOSCALERS, one)
        await world.settle()
        messages = {
            name: next(
                each.message
                for each in world.one(HORIZONTAL_POD_AUTOSCALERS, name).status.conditions
                if each.type == "ScalingActive"
            )
            for name in ("no-server", "no-query")
        }
        assert "prometheus-server must be a URL" in messages["no-server"]
        assert "no ScaledObject of this namespace gives the metric x" in messages["no-query"]
        assert world.metrics.asked == []


async def test_a_metric_without_a_value_changes_nothing_until_the_fallback() -> None:
    async with World() as world:
        await world.make(DEPLOYMENTS, workload(DEPLOYMENTS, replicas=4))
        fallback = {"failureThreshold": 9, "replicas": 6}
        world.metrics.value = MetricError("http://prometheus:9090 does not answer within 5 s")
        await world.make(SCALED_OBJECTS, scaled(maxReplicaCount=10, cooldownPeriod=0, fallback=fallback))
        await world.look(60)
        assert world.replicas() == 4
        assert world.states(SCALED_OBJECTS, "web")["Ready"] == ("False", "TriggerError")
        await world.look(200)
        assert world.replicas() == 6
        assert world.states(SCALED_OBJECTS, "web")["Fallback"] == ("True", "FallbackExists")
        world.metrics.value = 2000.0
        await world.look(60)
        assert world.states(SCALED_OBJECTS, "web")["Fallback"] == ("False", "NoFallbackFound")


async def test_cron_windows_hold_replicas_while_they_last() -> None:
    async with World() as world:
        await world.make(DEPLOYMENTS, workload(DEPLOYMENTS, replicas=1))
        cron = {"timezone": "UTC", "start": "0 8 * * *", "end": "0 18 * * *", "desiredReplicas": "7"}
        await world.make(SCALED_OBJECTS, scaled({"type": "cron", "metadata": cron}, minReplicaCount=1))
        now = world.clock.time() % 86_400
        await world.look((9 * 3600 - now) % 86_400)
        assert world.replicas() == 7
        await world.look(10 * 3600)
        assert world.replicas() == 1


@pytest.mark.parametrize(
    ("notes", "held"),
    [({"autoscaling.keda.sh/paused-replicas": "5"}, 5), ({"autoscaling.keda.sh/paused": "true"}, 3)],
    ids=["at a number", "as it is"],
)
async def test_a_paused_one_is_held(notes: dict[str, str], held: int) -> None:
    async with World() as world:
        await world.make(DEPLOYMENTS, workload(DEPLOYMENTS, replicas=3))
        world.metrics.value = 9000.0
        await world.make(SCALED_OBJECTS, scaled(notes=notes))
        await world.look(120)
        assert world.replicas() == held
        assert world.states(SCALED_OBJECTS, "web")["Paused"][0] == "True"


async def test_a_missing_target_is_told_and_found_later() -> None:
    async with World() as world:
        await world.make(SCALED_OBJECTS, scaled(minReplicaCount=2))
        await world.look()
        assert world.states(SCALED_OBJECTS, "web")["Ready"] == ("False", "ScaledObjectCheckFailed")
        await world.make(DEPLOYMENTS, workload(DEPLOYMENTS, replicas=1))
        await world.look(60)
        assert world.replicas() == 2
        assert world.states(SCALED_OBJECTS, "web")["Ready"] == ("True", "ScaledObjectReady")


async def test_an_autoscaler_of_another_s_is_left_alone() -> None:
    async with World() as world:
        await world.make(DEPLOYMENTS, workload(DEPLOYMENTS, replicas=1))
        target = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
        mine = build(HORIZONTAL_POD_AUTOSCALERS, "mine", scaleTargetRef=target, minReplicas=1, maxReplicas=2)
        await world.make(HORIZONTAL_POD_AUTOSCALERS, mine)
        advanced = {"horizontalPodAutoscalerConfig": {"name": "mine"}}
        await world.make(SCALED_OBJECTS, scaled(minReplicaCount=5, advanced=advanced))
        await world.look()
        assert world.states(SCALED_OBJECTS, "web")["Ready"] == ("False", "ScaledObjectCheckFailed")
        assert world.one(HORIZONTAL_POD_AUTOSCALERS, "mine").spec.max_replicas == 2


async def test_an_autoscaler_says_what_it_lacks_and_keeps_its_bounds() -> None:
    async with World() as world:
        await world.make(DEPLOYMENTS, workload(DEPLOYMENTS, replicas=1))
        target = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
        await world.make(
            HORIZONTAL_POD_AUTOSCALERS,
            build(HORIZONTAL_POD_AUTOSCALERS, "cpu", scaleTargetRef=target, minReplicas=3, maxReplicas=5),
        )
        await world.look()
        assert world.replicas() == 3
        states = world.states(HORIZONTAL_POD_AUTOSCALERS, "cpu")
        assert states["ScalingActive"] == ("False", "FailedGetResourceMetric")
        await world.edit(DEPLOYMENTS, "web", replicas=9)
        await world.look()
        assert world.replicas() == 5
        assert world.one(HORIZONTAL_POD_AUTOSCALERS, "cpu").status.desired_replicas == 5
        await world.edit(HORIZONTAL_POD_AUTOSCALERS, "cpu", scaleTargetRef={**target, "name": "gone"})
        await world.look()
        assert world.states(HORIZONTAL_POD_AUTOSCALERS, "cpu")["AbleToScale"] == ("False", "FailedGetScale")


def knative(name: str = "infer", notes: dict[str, str] | None = None, **container: Any) -> Any:
    given = {"image": "llm-inference:latest", **container}
    template = {"metadata": {"annotations": notes or {}}, "spec": {"containers": [given]}}
    return build(KNATIVE_SERVICES, name, metadata={"uid": "u-1", "generation": 1}, template=template)


async def test_a_knative_service_becomes_a_deployment_a_service_and_an_autoscaler() -> None:
    """The article's Service."""
    notes = {"autoscaling.knative.dev/target": "10", "autoscaling.knative.dev/class": "hpa.autoscaling.knative.dev"}
    async with World() as world:
        await world.make(KNATIVE_SERVICES, knative(notes=notes, resources={"limits": {"nvidia.com/gpu": 1}}))
        await world.look()
        deployment = world.one(DEPLOYMENTS, "infer-deployment")
        (container,) = deployment.spec.template.spec.containers
        assert {each.name: each.value for each in container.env}["K_REVISION"] == "infer-00001"
        assert container.name == "user-container"
        written = len(world.client.writes)
        await world.look(120)
        assert not [one for one in world.client.writes[written:] if one.resource == "deployments"], "it has settled"
        service = world.one(SERVICES, "infer")
        assert [(port.port, port.target_port) for port in service.spec.ports] == [(80, 8080)]
        autoscaler = world.one(HORIZONTAL_POD_AUTOSCALERS, "infer")
        assert autoscaler.spec.metrics[0].resource.target.average_utilization == 10
        status = world.one(KNATIVE_SERVICES, "infer").status
        assert status.url == "http://infer.default.svc.cluster.local"
        assert status.latest_created_revision_name == "infer-00001"
        assert world.states(KNATIVE_SERVICES, "infer")["Ready"] == ("Unknown", "Deploying")


async def test_a_knative_service_that_sleeps_is_ready_and_says_where_it_is_asked() -> None:
    async with World() as world:
        await world.make(KNATIVE_SERVICES, knative())
        await world.look()
        assert world.states(KNATIVE_SERVICES, "infer")["Ready"] == ("Unknown", "Deploying")
        was = {"status": {"latestReadyRevisionName": "infer-00001"}}
        await world.client.patch(KNATIVE_SERVICES, "infer", was, namespace="default", subresource="status")
        await world.edit(DEPLOYMENTS, "infer-deployment", replicas=0)
        note = {"metadata": {"annotations": {"unisono.io/service-address": "127.192.0.1:80"}}}
        await world.client.patch(SERVICES, "infer", note, namespace="default")
        await world.look()
        assert world.states(KNATIVE_SERVICES, "infer")["Ready"] == ("True", None)
        status = world.one(KNATIVE_SERVICES, "infer").status
        assert (status.url, status.address.url) == ("http://127.192.0.1", "http://infer.default.svc.cluster.local")


async def test_a_knative_service_does_not_take_what_is_another_s() -> None:
    async with World() as world:
        await world.make(DEPLOYMENTS, workload(DEPLOYMENTS, "infer-deployment", replicas=1))
        await world.make(KNATIVE_SERVICES, knative())
        await world.look()
        assert world.states(KNATIVE_SERVICES, "infer")["Ready"] == ("False", "NotOwned")
        assert world.client.find(SERVICES, "default/infer") is None


async def test_servers_of_one_namespace_that_never_answer_delay_nothing_in_another() -> None:
    other = {"namespace": "other"}
    async with World() as world:
        await world.make(
            DEPLOYMENTS, build(DEPLOYMENTS, metadata=other, selector=SELECTOR, template=template(), replicas=1)
        )
        for number in range(60):
            slow = build(
                SCALED_OBJECTS,
                f"slow-{number}",
                metadata=other,
                scaleTargetRef={"name": "web"},
                triggers=[prometheus(serverAddress=SLOW)],
            )
            await world.make(SCALED_OBJECTS, slow)
        assert [address for address, _ in world.metrics.asked].count(SLOW) == 4
        await world.make(DEPLOYMENTS, workload(DEPLOYMENTS, replicas=1))
        world.metrics.value = 3000.0
        await world.make(SCALED_OBJECTS, scaled(minReplicaCount=1))
        await world.look(60)
        assert world.replicas() == 3


def measured(pod: Any, **usage: str) -> Any:
    containers = [{"name": each.name, "usage": usage} for each in pod.spec.containers]
    value = {"metadata": {"name": pod.metadata.name, "namespace": "default", "labels": pod.metadata.labels}}
    return msgspec.convert({**value, "containers": containers}, PodMetrics)


async def test_an_autoscaler_follows_what_the_pods_use() -> None:
    async with World() as world:
        shape = template()
        shape["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "200m", "memory": "1Gi"}}
        await world.make(DEPLOYMENTS, workload(DEPLOYMENTS, replicas=2, template=shape))
        target = {"type": "Utilization", "averageUtilization": 50}
        metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        spec = {"scaleTargetRef": reference, "minReplicas": 1, "maxReplicas": 10, "metrics": [metric]}
        await world.make(HORIZONTAL_POD_AUTOSCALERS, build(HORIZONTAL_POD_AUTOSCALERS, "web", **spec))
        await world.look()
        states = world.states(HORIZONTAL_POD_AUTOSCALERS, "web")
        assert states["ScalingActive"] == ("False", "FailedGetResourceMetric"), "nothing is measured yet"
        assert world.replicas() == 2
        await world.ready()
        for pod in world.client.objects(PODS):
            await world.make(POD_METRICS, measured(pod, cpu="150m", memory="1Gi"))
        await world.look()
        assert world.replicas() == 3, "75 % of the requests where 50 % are wanted"
        status = world.one(HORIZONTAL_POD_AUTOSCALERS, "web").status
        current = status.current_metrics[0].resource.current
        assert (current.average_utilization, current.average_value) == (75, "150m")
