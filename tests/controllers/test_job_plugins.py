"""Job plug-ins of frameworks: what pods see, and which objects are made for them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from job_pods import OWNER, built, env, view_of
from job_world import World, job, policy, task

from unisono.api.base import ObjectMeta
from unisono.api.core import Secret
from unisono.api.kinds import CONFIG_MAPS, NETWORK_POLICIES, SECRETS, SERVICES
from unisono.api.validation.job import PLUGINS
from unisono.controllers.job.plugins import ORDER, load
from unisono.controllers.job.plugins.network import generate
from unisono.controllers.objects import to_json


def own_env(pod: dict[str, Any], where: str = "containers") -> dict[str, Any]:
    """Variables other than the lists of hosts."""
    return {name: value for name, value in env(pod, where=where).items() if not name.startswith("VC_")}


def with_init(given: dict[str, Any]) -> dict[str, Any]:
    given["template"]["spec"]["initContainers"] = [{"name": "first", "image": "busybox"}]
    return given


def container(name: str, command: list[str], args: list[str] | None = None) -> dict[str, Any]:
    return {"name": name, "image": "ray", "command": command, **({"args": args} if args else {})}


def text(secret: Secret, key: str) -> str:
    return base64.b64decode((secret.data or {})[key]).decode()


def test_what_the_api_accepts_is_what_there_is():
    assert {plugin.name for plugin in ORDER} == set(PLUGINS)


# --- tensorflow ---------------------------------------------------------------------------------------------------

TF_CLUSTER = {
    "ps": ["job-ps-0.job:2222"],
    "worker": ["job-worker-0.job:2222", "job-worker-1.job:2222"],
    "chief": ["job-chief-0.job:2222"],
}


@pytest.mark.parametrize(
    ("name", "index", "role"),
    [("ps", 0, "ps"), ("worker", 1, "worker"), ("chief", 0, "chief"), ("tensorboard", 0, "tensorboard")],
)
def test_tensorflow_plugin(name, index, role):
    tasks = [task("ps"), task("worker", 2), task("chief"), task("tensorboard")]
    pod = built(view_of(*[with_init(t) for t in tasks], plugins={"tensorflow": []}), name, index)
    assert json.loads(env(pod)["TF_CONFIG"]) == {"cluster": TF_CLUSTER, "task": {"type": role, "index": index}}
    assert "TF_CONFIG" not in env(pod, where="initContainers")
    assert pod["spec"]["subdomain"] == "job"


def test_tensorflow_plugin_with_other_task_names_and_port():
    arguments = ["--ps=server", "--worker=trainer", "--evaluator=judge", "--port=3333"]
    view = view_of(task("server"), task("trainer"), task("judge"), plugins={"tensorflow": arguments})
    config = json.loads(env(built(view, "judge"))["TF_CONFIG"])
    assert config["task"] == {"type": "evaluator", "index": 0}
    assert config["cluster"]["worker"] == ["job-trainer-0.job:3333"]


@pytest.mark.parametrize(("tasks", "told"), [([("worker", 1)], False), ([("worker", 2)], True)])
def test_a_single_process_needs_no_cluster(tasks, told):
    view = view_of(*[task(name, count) for name, count in tasks], plugins={"tensorflow": []})
    assert ("TF_CONFIG" in env(built(view))) is told


# --- mpi ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "hosts"), [("master", "job-worker-0.job,job-worker-1.job"), ("worker", None)])
def test_mpi_plugin(name, hosts):
    view = view_of(with_init(task("master")), with_init(task("worker", 2)), plugins={"mpi": []})
    pod = built(view, name)
    for where in ("containers", "initContainers"):
        assert own_env(pod, where).get("MPI_HOST") == hosts
        assert pod["spec"][where][0]["ports"] == [{"name": "mpijob-port", "containerPort": 22, "protocol": "TCP"}]
    assert [v["name"] for v in pod["spec"]["volumes"]] == ["job-svc", "job-ssh"]


@pytest.mark.parametrize(
    ("arguments", "tasks", "hosts"),
    [
        (["--master=boss", "--worker=crew", "--port=2022"], ["boss", "crew"], "job-crew-0.job"),
        (["--master=boss"], ["boss", "other"], None),
    ],
    ids=["other names", "nobody works for it"],
)
def test_mpi_plugin_finds_its_tasks(arguments, tasks, hosts):
    pod = built(view_of(*map(task, tasks), plugins={"mpi": arguments}), "boss")
    assert own_env(pod).get("MPI_HOST") == hosts


# --- jax ----------------------------------------------------------------------------------------------------------


def test_jax_plugin():
    view = view_of(task("worker", 3), task("board"), plugins={"jax": ["--port=7777"]})
    pod = built(view, "worker", 2)
    assert own_env(pod) == {
        "COORDINATOR_ADDRESS": "job-worker-0.job",
        "COORDINATOR_PORT": "7777",
        "JAX_COORDINATOR_ADDRESS": "job-worker-0.job:7777",
        "NUM_PROCESSES": "3",
        "PROCESS_ID": "2",
    }
    assert pod["spec"]["containers"][0]["ports"][0]["name"] == "jaxjob-port"
    assert own_env(built(view, "board")) == {}


# --- hcclrank -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "index", "plugins", "given", "rank"),
    [
        ("master", 1, {"hcclrank": []}, {}, "1"),
        ("worker", 0, {"hcclrank": []}, {}, "2"),
        ("worker", 2, {"hcclrank": []}, {}, "4"),
        ("other", 0, {"hcclrank": []}, {}, None),
        ("other", 0, {"hcclrank": ["--worker=other"]}, {}, "2"),
        ("worker", 0, {"hcclrank": []}, {"env": [{"name": "RANK", "value": "17"}]}, "17"),
        ("worker", 1, {"pytorch": [], "hcclrank": []}, {}, "2"),
    ],
    ids=["master", "first worker", "last worker", "no role", "renamed", "own RANK", "RANK of pytorch"],
)
def test_hcclrank_plugin(name, index, plugins, given, rank):
    tasks = [task("master", 2), task("worker", 3), task("other")]
    for each in tasks:
        each["template"]["spec"]["containers"][0] |= given
    pod = built(view_of(*tasks, plugins=plugins), name, index)
    assert pod["metadata"]["annotations"].get("hccl/rankIndex") == rank


def test_hcclrank_keeps_the_templates_annotation():
    given = task("master")
    given["template"]["metadata"] = {"annotations": {"hccl/rankIndex": "9"}}
    assert built(view_of(given, plugins={"hcclrank": []}))["metadata"]["annotations"]["hccl/rankIndex"] == "9"


# --- ray ----------------------------------------------------------------------------------------------------------


def ray_job(head_command: list[str], head_args: list[str] | None = None, **spec: Any) -> Any:
    head, worker = task("head"), task("worker", 2)
    head["template"]["spec"]["containers"] = [container("head", head_command, head_args), container("log", ["tail"])]
    worker["template"]["spec"]["containers"] = [container("worker", ["bash", "-c"], ["ray start --address=x"])]
    return view_of(head, worker, plugins={"ray": spec.pop("arguments", [])})


def test_ray_head_and_workers():
    view = ray_job(["python"])
    head, log = built(view, "head")["spec"]["containers"]
    assert head["command"] == [
        "sh",
        "-c",
        "ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=8265 "
        "--ray-client-server-port=10001",
    ]
    assert {port["name"]: port["containerPort"] for port in head["ports"]} == {
        "gcs": 6379,
        "dashboard": 8265,
        "client-server": 10001,
    }
    assert (log["command"], log.get("ports")) == (["tail"], None)
    (worker,) = built(view, "worker", 1)["spec"]["containers"]
    assert worker["command"] == ["sh", "-c", "ray start --block --address=job-head-0.job:6379"]
    assert worker["args"] == ["ray start --address=x"]


def test_a_head_that_starts_ray_by_itself_runs_its_own_program():
    own = "ray start --head --port=6379 && python3 train.py"
    head = built(ray_job(["bash", "-c"], [own]), "head")["spec"]["containers"][0]
    assert (head["command"], head["args"]) == (["bash", "-c"], [own])
    assert len(head["ports"]) == 3


@pytest.mark.parametrize("client", ["--clientPort=3", "--clientServerPort=3"])
def test_ray_service(client):
    view = ray_job(["python"], arguments=["--port=1", "--dashboardPort=2", client])
    made = {
        r.obj.metadata.name: to_json(r.obj) for plugin in load(view) for r in plugin.resources() if r.kind is SERVICES
    }
    assert made["job-head-svc"]["metadata"]["ownerReferences"] == [OWNER]
    assert made["job-head-svc"]["spec"] == {
        "ports": [
            {"name": "gcs", "protocol": "TCP", "port": 1, "targetPort": 1},
            {"name": "dashboard", "protocol": "TCP", "port": 2, "targetPort": 2},
            {"name": "client-server", "protocol": "TCP", "port": 3, "targetPort": 3},
        ],
        "selector": {
            "volcano.sh/job-name": "job",
            "volcano.sh/job-namespace": "default",
            "volcano.sh/task-spec": "head",
        },
    }


@pytest.mark.parametrize(
    ("plugins", "sentence"),
    [
        ({"ray": []}, "job job doesn't have head task head; name it with --head=<task>."),
        ({"jax": []}, "plug-in jax: the job has no task 'worker'; name it with --worker=<task>."),
        ({"ray": ["--head=a", "--port=0"]}, "plug-in ray: --port is '0'; write a port from 1 to 65535."),
        ({"ssh": ["--ssh-private-key=x"]}, "plug-in ssh: --ssh-private-key is no private key; give an unencrypted"),
        ({"ssh": ["--ssh-public-key=x"]}, "--ssh-public-key is given without --ssh-private-key"),
        ({"svc": ["--disable-network-policy=maybe"]}, "--disable-network-policy is 'maybe'; write true or false."),
    ],
)
async def test_a_plug_in_that_cannot_serve_the_job_says_what_to_change(plugins, sentence):
    async with World() as world:
        await world.submit(job(task("a"), plugins=plugins))
        await world.admit()
        assert world.names() == []
        assert world.job().status.state.reason == "PluginError"
        assert sentence in world.job().status.state.message


# --- ssh ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "path", "mode"),
    [
        ([], "/root/.ssh", 0o600),
        (["--no-root"], "/root/.ssh", 0o600),
        (["--ssh-key-file-path=/home/me/.ssh", "--no-root=true"], "/home/me/.ssh", 0o644),
    ],
)
def test_ssh_files_in_pods(arguments, path, mode):
    pod = built(view_of(with_init(task("a")), plugins={"ssh": arguments}))
    assert pod["spec"]["volumes"] == [
        {
            "name": "job-ssh",
            "secret": {
                "secretName": "job-ssh",
                "items": [
                    {"key": key, "path": f".ssh/{key}"} for key in ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
                ],
                "defaultMode": mode,
            },
        }
    ]
    for where in ("containers", "initContainers"):
        assert pod["spec"][where][0]["volumeMounts"] == [{"name": "job-ssh", "mountPath": path, "subPath": ".ssh"}]


@pytest.mark.parametrize(("port", "written"), [("2022", 2022), ("0", 22), ("70000", 22), ("x", 22)])
def test_ssh_knows_every_host(port, written):
    given = task("fixed", 2)
    given["template"]["spec"] |= {"hostname": "h", "subdomain": "sub"}
    view = view_of(task("a", 2), given, plugins={"ssh": [f"--ssh-port={port}"]})
    (secret,) = [r.obj for r in load(view)[0].resources()]
    assert text(secret, "config").splitlines() == [
        "StrictHostKeyChecking no",
        "UserKnownHostsFile /dev/null",
        *("Host job-a-0", "  HostName job-a-0.job", f"  Port {written}"),
        *("Host job-a-1", "  HostName job-a-1.job", f"  Port {written}"),
        *("Host h", "  HostName h.sub", f"  Port {written}"),
    ]


def test_generated_keys_belong_together(tmp_path):
    data = {key: base64.b64decode(value) for key, value in generate().items()}
    assert data["id_rsa"].startswith(b"-----BEGIN RSA PRIVATE KEY-----")
    key = serialization.load_pem_private_key(data["id_rsa"], password=None)
    assert key.key_size == 2048
    line = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    assert data["id_rsa.pub"] == data["authorized_keys"] == line + b"\n"


async def test_keys_are_made_once_and_outlive_restarts_and_scaling():
    rules = [policy("RestartJob", "PodFailed")]
    async with World() as world:
        await world.submit(job(task("a", 2), minAvailable=1, plugins={"ssh": []}, policies=rules))
        first = world.client.find(SECRETS, "default/job-ssh")
        assert first.metadata.owner_references[0].uid == world.job().metadata.uid
        await world.admit()
        await world.all_pods("Running")
        await world.pod("job-a-1", "Failed")
        await world.finish_deletions()
        await world.admit()
        await world.all_pods("Running")
        await world.change("job", tasks=[task("a", 3)])
        await world.restart()
        after = world.client.find(SECRETS, "default/job-ssh")
        assert (after.data["id_rsa"], after.metadata.uid) == (first.data["id_rsa"], first.metadata.uid)
        assert "Host job-a-2" in text(after, "config")
        await world.all_pods("Succeeded")
        assert world.phase() == "Completed"
        assert world.client.objects(SECRETS) == []


async def test_given_keys_are_used():
    data = generate()
    private = base64.b64decode(data["id_rsa"]).decode()
    async with World() as world:
        await world.submit(job(task("a"), plugins={"ssh": [f"--ssh-private-key={private}"]}))
        secret = world.client.find(SECRETS, "default/job-ssh")
        assert {key: secret.data[key] for key in data} == data


async def test_a_strangers_secret_is_left_alone():
    async with World() as world:
        world.client.put(SECRETS, Secret(metadata=ObjectMeta(name="job-ssh", namespace="default"), data={"a": "Yg=="}))
        await world.submit(job(task("a"), plugins={"ssh": []}))
        assert world.group() is None
        assert "belongs to something else; delete or rename it." in world.recorder.of("PluginError")[0]
        assert world.client.find(SECRETS, "default/job-ssh").data == {"a": "Yg=="}


# --- svc ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("arguments", "isolated"), [([], True), (["--disable-network-policy=true"], False)])
async def test_the_network_policy_comes_and_goes_with_the_job(arguments, isolated):
    async with World() as world:
        await world.submit(job(task("a"), plugins={"svc": arguments}))
        assert [p.metadata.name for p in world.client.objects(NETWORK_POLICIES)] == (["job"] if isolated else [])
        await world.admit()
        await world.all_pods("Succeeded")
        assert world.phase() == "Completed"
        assert world.client.objects(NETWORK_POLICIES) == world.client.objects(CONFIG_MAPS) == []
