"""``unisono support-bundle``: what scheduling is about is in it, and nothing that users keep secret."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.plane import MANIFESTS, REPOSITORY
from unisono.api.yaml import expand_lists, load_all
from unisono.apiserver.backend import Backend
from unisono.apiserver.server import ApiServer
from unisono.cli.commands.support_bundle import KINDS, REDACTED, Redaction
from unisono.cli.main import main
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import load

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.c2lnbmF0dXJl"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----"


def canary(place: str) -> str:
    return f"canary-of-{place}"


def pod(name: str = "main", **more: Any) -> dict[str, Any]:
    container = {
        "name": name,
        "image": "pytorch:2",
        "command": ["sh", "-c", f"curl -u {canary('command')} https://x"],
        "args": [canary("args")],
        "env": [{"name": "WANDB_API_KEY", "value": canary("env")}, {"name": "EMPTY", "value": ""}],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        "lifecycle": {"postStart": {"exec": {"command": [canary("hook")]}}},
    }
    return {"containers": [container], "restartPolicy": "Never", "schedulerName": "volcano"} | more


OBJECTS: dict[str, dict[str, Any]] = {
    "/api/v1/namespaces/default/secrets": {"metadata": {"name": "s"}, "stringData": {"a": canary("secret")}},
    "/api/v1/namespaces/default/configmaps": {"metadata": {"name": "c"}, "data": {"a": canary("config")}},
    "/api/v1/namespaces/default/pods": {
        "metadata": {
            "name": "p",
            "labels": {"team": "vision"},
            "annotations": {"example.com/note": canary("annotation"), "volcano.sh/task-spec": "worker"},
        },
        "spec": pod(nodeSelector={"zone": "a"}),
    },
    "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs": {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {
            "minAvailable": 1,
            "plugins": {"ssh": [f"--ssh-private-key={canary('plugin')}"]},
            "tasks": [{"name": "w", "replicas": 1, "template": {"spec": pod()}}],
        },
    },
    "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs": {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "t"},
        "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": {"spec": pod("pytorch")}}}},
    },
    "/api/v1/namespaces/default/events": {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Failed",
        "message": f"sh: {canary('args')}: not found; Authorization: Bearer {JWT}; see postgres://me:hunter22@db/x",
        "type": "Warning",
    },
    "/apis/scheduling.volcano.sh/v1beta1/queues": {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "team"},
        "spec": {"weight": 3},
    },
}


@pytest.fixture
async def server(tmp_path: Path) -> Any:
    backend = await Backend.open(tmp_path / "state.db")
    served = ApiServer(backend.service, data_dir=tmp_path)
    await served.start()
    try:
        yield served
    finally:
        await served.stop()
        await backend.close()


async def bundle(server: ApiServer, file: Path, *words: str) -> int:
    def call() -> int:
        try:
            main(["support-bundle", str(file), "--kubeconfig", str(server.kubeconfig_path), *words])
        except SystemExit as end:
            return int(end.code or 0)
        raise AssertionError("the command line always ends with an exit code")

    return await asyncio.to_thread(call)


async def test_what_is_in_a_bundle_and_what_is_not(
    server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client = HttpClient(load(server.kubeconfig_path))
    try:
        for path, body in OBJECTS.items():
            status, _, answer = await client.request("POST", path, body=json.dumps(body).encode())
            assert status == 201, answer
    finally:
        await client.close()
    file = tmp_path / "b.tar.gz"
    assert await bundle(server, file, "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (file.stat().st_mode & 0o777, told["path"], told["problems"]) == (0o600, str(file), [])
    with tarfile.open(file) as archive:
        texts = {name: archive.extractfile(name).read().decode() for name in archive.getnames()}  # type: ignore[union-attr]
    everything = "".join(texts.values())
    for hidden in ("canary-of-", JWT, "hunter22", base64.b64encode(canary("secret").encode()).decode()):
        assert hidden not in everything, hidden
    assert not [name for name in texts if "secret" in name or "configmap" in name]
    home = "unisono-support"
    shown = json.loads(texts[f"{home}/objects/pods.jsonl"])
    assert shown["spec"]["containers"][0]["env"] == [
        {"name": "WANDB_API_KEY", "value": REDACTED},
        {"name": "EMPTY", "value": ""},
    ]
    assert shown["metadata"]["labels"] == {"team": "vision"}
    assert shown["metadata"]["annotations"]["volcano.sh/task-spec"] == "worker"
    assert shown["spec"]["nodeSelector"] == {"zone": "a"}
    assert shown["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    event = json.loads(texts[f"{home}/objects/events.jsonl"])
    assert (
        event["message"]
        == f"sh: {REDACTED}: not found; Authorization: Bearer {REDACTED}; see postgres://{REDACTED}@db/x"
    )
    queues = [json.loads(line) for line in texts[f"{home}/objects/queues.scheduling.volcano.sh.jsonl"].splitlines()]
    assert {each["metadata"]["name"]: each["spec"]["weight"] for each in queues}["team"] == 3
    assert json.loads(texts[f"{home}/about.json"])["server"]["gitVersion"].startswith("v1.")

    assert await bundle(server, file) == 1
    assert "--force" in capsys.readouterr().err
    assert await bundle(server, file, "--force") == 0


def test_no_kind_that_holds_secrets_is_read() -> None:
    assert not {"secrets", "configmaps", "serviceaccounts"} & {kind.plural for kind in KINDS}


def written() -> list[dict[str, Any]]:
    files = [*MANIFESTS.glob("*.yaml"), *(REPOSITORY / "examples").rglob("*.yaml")]
    return [dict(each.value) for file in files for each in expand_lists(load_all(file.read_text(), file=str(file)))]


def planted(value: Any, left: list[str], key: str = "") -> Any:
    """The value with a canary in the place of every env value, command, argument, and text of an inline file."""
    if isinstance(value, dict):
        return {name: planted(each, left, name) for name, each in value.items()}
    if isinstance(value, list):
        return [planted(each, left, key) for each in value]
    if isinstance(value, str) and key in ("value", "command", "args", "entrypoint", "runtimeEnvYAML", "script"):
        left.append(f"canary-{len(left)}-of-{key}")
        return left[-1]
    return value


def test_no_env_value_command_or_argument_of_any_manifest_stays() -> None:
    seen = 0
    for value in written():
        canaries: list[str] = []
        made = planted(copy.deepcopy(value), canaries)
        for each in canaries:
            # A taint's or a toleration's value is no secret, and says where pods may run.
            seen += each.endswith("value")
        shown = json.dumps(Redaction().clean(made))
        assert not [each for each in canaries if each in shown and not each.endswith("-of-value")], value
        for container in containers(made):
            for env in container.get("env") or ():
                assert "value" not in env or env["value"] not in shown
    assert seen > 5


def containers(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, list):
        return [found for each in value for found in containers(each)]
    if not isinstance(value, dict):
        return []
    own = [each for key in ("containers", "initContainers") for each in value.get(key) or () if isinstance(each, dict)]
    return [*own, *(found for each in value.values() for found in containers(each))]


@given(st.text(min_size=6).map(str.strip).filter(lambda text: len(text) >= 6), st.text(), st.text())
def test_what_was_hidden_in_an_object_is_hidden_in_every_text(secret: str, before: str, after: str) -> None:
    redaction = Redaction()
    assert redaction.clean({"env": [{"name": "A", "value": secret}]}) == {"env": [{"name": "A", "value": REDACTED}]}
    if secret not in REDACTED:
        for text in (secret, json.dumps(secret)[1:-1]):
            scrubbed = redaction.scrub(f"{before} {text} {after}")
            assert scrubbed.count(text) <= scrubbed.count(REDACTED) * REDACTED.count(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"token {JWT} given", f"token {REDACTED} given"),
        (f"a\n{KEY}\nb", f"a\n{REDACTED}\nb"),
        ("password: hunter2, user: me", f"password: {REDACTED}, user: me"),
        ('{"apiKey": "abc", "x": 1}', f'{{"apiKey": "{REDACTED}", "x": 1}}'),
        ("elasticsearch.password=abc", f"elasticsearch.password={REDACTED}"),
        ("https://me:pw@example.com/a", f"https://{REDACTED}@example.com/a"),
        (
            "0/8 nodes are unavailable: 5 Insufficient nvidia.com/gpu",
            "0/8 nodes are unavailable: 5 Insufficient nvidia.com/gpu",
        ),
    ],
)
def test_what_looks_like_a_credential_is_replaced(text: str, shown: str) -> None:
    assert Redaction().scrub(text) == shown
