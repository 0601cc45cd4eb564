from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.virtual_clock import VirtualClock
from unisono.errors import ConfigError
from unisono.kube import auth as tls
from unisono.kube.auth import credentials
from unisono.kube.kubeconfig import ClusterConfig, in_cluster, load

V1 = "client.authentication.k8s.io/v1"


def write(path: Path, **changes: Any) -> Path:
    value: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443/"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    path.write_text(yaml.safe_dump({**value, **changes}))
    return path


def user(**value: Any) -> list[dict[str, Any]]:
    return [{"name": "u", "user": value}]


def test_the_current_context_is_taken(tmp_path: Path) -> None:
    config = load(write(tmp_path / "config"))
    assert (config.server, config.namespace, config.token) == ("https://10.0.0.1:6443", "team", "t")
    assert config.context == "main"
    assert "token='t'" not in repr(config)


def test_data_wins_over_files_and_files_are_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "ca.pem").write_text("CA")
    (folder / "cert.pem").write_text("CERT")
    data = base64.b64encode(b"KEY").decode()
    cluster = {"server": "https://h", "certificate-authority": "ca.pem", "tls-server-name": "api"}
    config = load(
        write(
            folder / "config",
            clusters=[{"name": "c", "cluster": cluster}],
            users=user(**{"client-certificate": "cert.pem", "client-key-data": data, "tokenFile": "token"}),
        )
    )
    assert (config.ca, config.client_certificate, config.client_key) == (b"CA", b"CERT", b"KEY")
    assert (config.token_file, config.tls_server_name) == (folder / "token", "api")


def test_several_files_are_merged_and_the_first_wins(tmp_path: Path) -> None:
    first = tmp_path / "one"
    first.write_text(yaml.safe_dump({"current-context": "other"}))
    other = {"name": "other", "context": {"cluster": "c", "user": "u"}}
    second = write(tmp_path / "two", contexts=[other])
    env = {"KUBECONFIG": os.pathsep.join([str(first), str(tmp_path / "missing"), str(second)])}
    assert load(env=env).context == "other"
    assert load(env=env).namespace == "default"


@pytest.mark.parametrize(
    ("changes", "message", "key"),
    [
        ({"current-context": "nope"}, "context 'nope' does not exist; contexts has main", "contexts"),
        ({"current-context": ""}, "current-context is not set", "current-context"),
        ({"current-context": "", "contexts": []}, "no kubeconfig, or an empty one", "contexts"),
        ({"clusters": []}, "cluster 'c' does not exist; clusters has none", "clusters"),
        ({"clusters": {}}, None, "clusters"),
        ({"clusters": "x"}, "clusters must be a list", "clusters"),
        ({"clusters": [{"name": "c", "cluster": {}}]}, "server is missing", "clusters[c].cluster.server"),
        (
            {"clusters": [{"name": "c", "cluster": {"server": "host:1"}}]},
            "must start with https://",
            "clusters[c].cluster.server",
        ),
        ({"users": user(token=5)}, "must be a string", "users[u].user.token"),
        (
            {"users": user(**{"client-certificate-data": "%%", "client-key-data": ""})},
            "is not base64",
            "users[u].user.client-certificate-data",
        ),
        ({"users": user(**{"client-certificate-data": "QQ=="})}, "is missing", "users[u].user.client-key"),
        ({"users": user(**{"client-key": "gone.pem"})}, "cannot be read", "users[u].user.client-key"),
        ({"users": user(**{"auth-provider": {"name": "azure"}})}, "use an exec plug-in", "users[u].user.auth-provider"),
        ({"users": user(exec={"apiVersion": "v0", "command": "x"})}, "must be client.auth", None),
        ({"users": user(exec={"apiVersion": "client.authentication.k8s.io/v1"})}, "is missing", None),
        (
            {"users": user(exec={"apiVersion": V1, "command": "x", "interactiveMode": "Always"})},
            "has no terminal to ask at",
            None,
        ),
        ({"users": user(**{"as-groups": ["dev"]})}, "needs a name", None),
    ],
)
def test_errors_name_the_file_and_the_key(
    tmp_path: Path, changes: dict[str, Any], message: str | None, key: str | None
) -> None:
    path = write(tmp_path / "config", **changes)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert message is None or message in str(caught.value)
    assert key is None or caught.value.key == key


def test_broken_yaml_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("a: 1\nb: [\n")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert caught.value.line == 3


def test_no_kubeconfig_at_all_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="looked for ~"):
        load(env={}, home=tmp_path)
    with pytest.raises(ConfigError, match="no such kubeconfig file"):
        load(tmp_path / "nope")


def test_inside_a_pod_the_service_account_is_used(tmp_path: Path) -> None:
    for name, text in (("token", "t"), ("ca.crt", "CA"), ("namespace", "ns\n")):
        (tmp_path / name).write_text(text)
    config = in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}, tmp_path)
    assert (config.server, config.namespace, config.ca) == ("https://[fd00::1]:443", "ns", b"CA")
    assert config.token_file == tmp_path / "token"
    with pytest.raises(ConfigError, match="not mounted"):
        in_cluster({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path / "nope")
    with pytest.raises(ConfigError, match="does not run in a pod"):
        in_cluster({}, tmp_path)


def exec_config(tmp_path: Path, script: str, **extra: Any) -> ClusterConfig:
    program = tmp_path / "plugin.py"
    program.write_text(script)
    value = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(program)],
        "env": [{"name": "FLAVOUR", "value": "sweet"}],
        **extra,
    }
    return load(write(tmp_path / "config", users=user(exec=value)))


async def test_an_exec_plugin_answers_a_token_until_it_expires(tmp_path: Path) -> None:
    clock = VirtualClock(start=1_700_000_000.0)
    config = exec_config(
        tmp_path,
        "import json, os, pathlib\n"
        f"calls = pathlib.Path({str(tmp_path)!r}) / 'calls'\n"
        "n = int(calls.read_text()) + 1 if calls.exists() else 1\n"
        "calls.write_text(str(n))\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "token = os.environ['FLAVOUR'] + info['spec']['cluster']['server'] + str(n)\n"
        "print(json.dumps({'status': {'token': token, 'expirationTimestamp': '2023-11-14T22:23:20Z'}}))\n",
        provideClusterInfo=True,
    )
    auth = credentials(config, clock)
    first = await auth.authorization()
    assert first == "Bearer sweethttps://10.0.0.1:64431"
    assert await auth.authorization() == first
    await clock.advance(580)
    assert await auth.authorization() == "Bearer sweethttps://10.0.0.1:64432"
    assert auth.refused()
    assert await auth.authorization() == "Bearer sweethttps://10.0.0.1:64433"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import sys; print('no card', file=sys.stderr); sys.exit(3)", "failed with 3: no card"),
        ("print('hello')", "did not print an ExecCredential"),
        ("print('{\"status\": {}}')", "neither a token nor a client certificate"),
        ('print(\'{"status": {"clientCertificateData": "x"}}\')', "gave no clientKeyData"),
        (
            'print(\'{"apiVersion": "client.authentication.k8s.io/v1beta1", "status": {"token": "x"}}\')',
            "speaks client.authentication.k8s.io/v1beta1, the kubeconfig says client.authentication.k8s.io/v1",
        ),
    ],
)
async def test_a_failing_exec_plugin_says_so(tmp_path: Path, script: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        await credentials(exec_config(tmp_path, script), VirtualClock()).authorization()


async def test_an_exec_plugin_may_answer_a_certificate_and_renew_it(tmp_path: Path) -> None:
    clock = VirtualClock(start=1_700_000_000.0)
    config = exec_config(
        tmp_path,
        "import json, pathlib\n"
        f"calls = pathlib.Path({str(tmp_path)!r}) / 'calls'\n"
        "n = int(calls.read_text()) + 1 if calls.exists() else 1\n"
        "calls.write_text(str(n))\n"
        "status = {'clientCertificateData': f'cert {n // 2}', 'clientKeyData': f'key {n // 2}'}\n"
        "print(json.dumps({'status': {**status, 'expirationTimestamp': '2023-11-14T22:13:20Z'}}))\n",
    )
    auth = credentials(config, clock)
    assert await auth.authorization() is None
    first = auth.certificate
    assert first == (b"cert 0", b"key 0")
    assert await auth.authorization() is None
    second = auth.certificate
    assert second == (b"cert 1", b"key 1")
    await auth.authorization()
    assert auth.certificate is second, "an equal certificate must not cost new connections"


@pytest.mark.parametrize(
    ("changes", "headers"),
    [
        ({"as": "jane"}, {"Impersonate-User": "jane"}),
        (
            {"as": "jane", "as-uid": "7", "as-groups": ["dev"], "as-user-extra": {"scope/x": ["a", "b"]}},
            {
                "Impersonate-User": "jane",
                "Impersonate-Uid": "7",
                "Impersonate-Group": "dev",
                "Impersonate-Extra-scope%2Fx": "b",
            },
        ),
    ],
)
def test_impersonation(tmp_path: Path, changes: dict[str, Any], headers: dict[str, str]) -> None:
    config = load(write(tmp_path / "config", users=user(**changes)))
    assert dict(config.impersonate) == headers


async def test_a_missing_exec_plugin_gives_its_hint(tmp_path: Path) -> None:
    config = exec_config(tmp_path, "", command="no-such-program", installHint="install it")
    with pytest.raises(ConfigError, match=r"cannot be started.*install it"):
        await credentials(config, VirtualClock()).authorization()


async def test_basic_authentication() -> None:
    config = ClusterConfig(server="https://h", username="u", password="p")
    assert await credentials(config, VirtualClock()).authorization() == "Basic dTpw"


def test_wrong_certificates_are_named() -> None:
    with pytest.raises(ConfigError, match="certificate authority of https://h is not valid PEM"):
        tls.context(ClusterConfig(server="https://h", ca=b"nonsense"))
    with pytest.raises(ConfigError, match="client certificate and key"):
        tls.context(ClusterConfig(server="https://h", client_certificate=b"x", client_key=b"y"))
    assert tls.context(ClusterConfig(server="http://h")) is None


def test_json_is_yaml(tmp_path: Path) -> None:
    path = write(tmp_path / "config")
    path.write_text(json.dumps(yaml.safe_load(path.read_text())))
    assert load(path).token == "t"
