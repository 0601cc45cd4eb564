"""kubectl apply on the server side, its way there from client-side apply, and commands that send protobuf."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from test_kubectl_core import NODE, pod

from support.kubectl import Plane

pytestmark = pytest.mark.kubectl

SERVER_SIDE = ("apply", "--server-side", "-f", "-")


def queue(weight: int, **spec: Any) -> str:
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "research"},
        "spec": {"weight": weight, **spec},
    }
    return yaml.safe_dump(body)


async def owners(plane: Plane, *what: str) -> set[str]:
    found = json.loads(await plane.ok("get", *what, "-o", "json", "--show-managed-fields"))
    return {f"{entry['manager']}/{entry['operation']}" for entry in found["metadata"]["managedFields"]}


async def test_two_teams_apply_to_one_queue(plane: Plane) -> None:
    out = await plane.ok(*SERVER_SIDE, "--field-manager=a", stdin=queue(1, reclaimable=False))
    assert out.strip() == "queue.scheduling.volcano.sh/research serverside-applied"
    err = await plane.fails(*SERVER_SIDE, "--field-manager=b", stdin=queue(2))
    assert 'Apply failed with 1 conflict: conflict with "a": .spec.weight' in err
    assert "--force-conflicts" in err
    await plane.ok(*SERVER_SIDE, "--field-manager=b", "--force-conflicts", stdin=queue(2))
    assert await owners(plane, "queue", "research") == {"a/Apply", "b/Apply"}
    shown = yaml.safe_load(await plane.ok("get", "queue", "research", "-o", "yaml"))
    assert shown["spec"]["weight"] == 2
    assert "managedFields" not in shown["metadata"]


async def test_from_client_side_to_server_side_apply(plane: Plane) -> None:
    await plane.ok("apply", "-f", "-", stdin=queue(1, reclaimable=False))
    await plane.ok(*SERVER_SIDE, stdin=queue(3))
    assert await owners(plane, "queue", "research") == {"kubectl/Apply", "kubectl-last-applied/Apply"}
    shown = yaml.safe_load(await plane.ok("get", "queue", "research", "-o", "yaml"))
    assert shown["spec"]["weight"] == 3
    last = await plane.ok("apply", "view-last-applied", "queue", "research")
    assert yaml.safe_load(last)["spec"] == {"weight": 3}


async def test_diff_and_dry_run_change_nothing(plane: Plane) -> None:
    await plane.ok(*SERVER_SIDE, stdin=queue(1))
    done = await plane.run("diff", "--server-side", "-f", "-", stdin=queue(5))
    assert done.code == 1
    assert "+  weight: 5" in done.out
    await plane.ok(*SERVER_SIDE, "--dry-run=server", stdin=queue(5))
    assert yaml.safe_load(await plane.ok("get", "queue", "research", "-o", "yaml"))["spec"]["weight"] == 1


async def test_a_field_that_does_not_exist_is_refused(plane: Plane) -> None:
    err = await plane.fails(*SERVER_SIDE, "--validate=false", stdin=queue(1, wieght=2))
    assert ".spec.wieght: field not declared in schema" in err


TYPED = """
create configmap settings --from-literal=a=b
create secret generic key --from-literal=a=b
create serviceaccount builder
create role reader --verb=get --resource=pods
create rolebinding reads --role=reader --serviceaccount=default:builder
create clusterrole looker --verb=get --resource=nodes
create clusterrolebinding looks --clusterrole=looker --user=u
create poddisruptionbudget spare --selector=app=web --min-available=50%
create priorityclass low --value=0
create namespace other
create service clusterip web --tcp=80:8080
expose pod p --port=80 --name=exposed
label pod p tier=front
annotate pod p note=x
set image pod/p main=busybox:2
taint node n1 kind=batch:NoSchedule
cordon n1
drain n1 --ignore-daemonsets --force --disable-eviction=false --timeout=1s
uncordon n1
auth can-i create pods
auth whoami
create token builder
create quota small --hard=pods=5
"""


async def test_commands_that_send_protobuf(plane: Plane) -> None:
    await plane.apply(NODE, pod())
    for line in TYPED.strip().splitlines():
        await plane.ok(*line.split())
    low = json.loads(await plane.ok("get", "priorityclass", "low", "-o", "json"))
    assert low["value"] == 0
    service = json.loads(await plane.ok("get", "service", "web", "-o", "json"))
    assert service["spec"]["ports"][0]["targetPort"] == 8080
    budget = json.loads(await plane.ok("get", "pdb", "spare", "-o", "json"))
    assert budget["spec"]["minAvailable"] == "50%"
    quota = json.loads(await plane.ok("get", "quota", "small", "-o", "json"))
    assert quota["spec"]["hard"] == {"pods": "5"}


EXPLAINED = {
    "job.spec.tasks --api-version=batch.volcano.sh/v1alpha1": "tasks <[]Object>",
    "pod.spec.containers.ports": "containerPort",
    "queue.spec": "weight",
    "hypernode.spec.members": "members",
    "podgroup.spec": "minMember",
    "roles.rules": "verbs",
    "resourceslice.spec.devices": "attributes",
}


async def test_every_schema_can_be_explained(plane: Plane) -> None:
    for words, part in EXPLAINED.items():
        assert part in await plane.ok("explain", *words.split())
