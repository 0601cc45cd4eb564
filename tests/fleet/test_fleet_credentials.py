"""Which kubeconfigs a hub accepts from a Secret."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml

from unisono.errors import ConfigError
from unisono.fleet.members.joining import member_config

PEM = base64.b64encode(b"pem").decode()


def kubeconfig(user: dict[str, Any] | None = None, **cluster: Any) -> str:
    value = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [
            {"name": "k", "cluster": {"server": "https://10.0.0.1:6443", "certificate-authority-data": PEM, **cluster}}
        ],
        "users": [{"name": "u", "user": {"token": "t"} if user is None else user}],
    }
    return base64.b64encode(yaml.safe_dump(value).encode()).decode()


@pytest.mark.parametrize(
    ("data", "key"),
    [
        ({"value": kubeconfig()}, None),
        ({"kubeconfig": kubeconfig(), "other": "x"}, None),
        ({"anything": kubeconfig()}, None),
        ({"a": "x", "b": kubeconfig()}, "b"),
    ],
)
def test_where_the_kubeconfig_is_found(data, key):
    config = member_config(data, key, "Secret fleets/a")
    assert (config.server, config.token, config.ca) == ("https://10.0.0.1:6443", "t", b"pem")


@pytest.mark.parametrize(
    ("data", "key", "message"),
    [
        ({"a": "x"}, "b", "Secret fleets/a: the Secret has no entry b; it has a"),
        ({"a": "x", "b": "y"}, None, "name one of a, b in spec.kubeconfig.key"),
        ({}, None, "the Secret has no entry value, kubeconfig or config"),
        ({"value": "%%"}, None, "this is no kubeconfig: it is no YAML in UTF-8"),
        ({"value": base64.b64encode(b"[1]").decode()}, None, "it is no mapping"),
        ({"value": base64.b64encode(b"a: " * 600_000).decode()}, None, "is larger than"),
        ({"value": kubeconfig({"exec": {"command": "rm"}})}, None, "users[u].exec starts a program: put a token"),
        ({"value": kubeconfig({"tokenFile": "/etc/shadow"})}, None, "users[u].tokenFile names a file: use 'token'"),
        ({"value": kubeconfig({"client-key": "/k", "client-certificate": "/c"})}, None, "use 'client-key-data'"),
        ({"value": kubeconfig({"username": "a", "password": "b"})}, None, "users[u].password uses a password"),
        ({"value": kubeconfig({"auth-provider": {"name": "gcp"}})}, None, "uses a log-in plug-in"),
        ({"value": kubeconfig({})}, None, "this kubeconfig has no credentials"),
        (
            {"value": kubeconfig(**{"certificate-authority": "/ca"})},
            None,
            "clusters[k].certificate-authority names a file",
        ),
        ({"value": kubeconfig(**{"insecure-skip-tls-verify": True})}, None, "trusts any certificate"),
        ({"value": kubeconfig(server="http://10.0.0.1")}, None, "its server must be https://"),
        ({"value": kubeconfig(server="")}, None, "server is missing"),
    ],
)
def test_what_is_refused(data, key, message):
    with pytest.raises(ConfigError) as error:
        member_config(data, key, "Secret fleets/a")
    assert message in str(error.value)
