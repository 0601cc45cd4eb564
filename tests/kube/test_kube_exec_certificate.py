"""A program of the kubeconfig answers client certificates: they are shown to the server, and renewed."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from unisono.api.kinds import PODS
from unisono.apiserver.access.pki import Authority
from unisono.apiserver.backend import Backend
from unisono.apiserver.server import ApiServer
from unisono.errors import ApiError
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig, ExecPlugin, load

PROGRAM = """
import json, pathlib
here = pathlib.Path(__file__).parent
status = {"clientCertificateData": (here / "cert").read_text(), "clientKeyData": (here / "key").read_text()}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {
    **status, "expirationTimestamp": "2020-01-01T00:00:00Z"}}))
"""


async def test_the_certificate_of_the_moment_is_shown(tmp_path: Path) -> None:
    backend = await Backend.open(tmp_path / "state.db")
    server = ApiServer(backend.service, data_dir=tmp_path)
    await server.start()
    folder = tmp_path / "plugin"
    folder.mkdir()
    (folder / "plugin.py").write_text(PROGRAM)

    def hold(authority: Authority, *groups: str) -> None:
        pair = authority.issue_client("jane", groups)
        (folder / "cert").write_bytes(pair.certificate_pem)
        (folder / "key").write_bytes(pair.key_pem)

    known = load(server.kubeconfig_path)
    plugin = ExecPlugin(sys.executable, (str(folder / "plugin.py"),), {}, "client.authentication.k8s.io/v1")
    client = HttpClient(ClusterConfig(server=known.server, ca=known.ca, exec_plugin=plugin))
    ours = Authority(next(tmp_path.rglob("ca.crt")).parent, datetime.now(UTC))
    try:
        hold(ours, "nobodies")
        with pytest.raises(ApiError) as caught:
            await client.list(PODS)
        assert caught.value.code in (401, 403)
        # The program is asked again for each request here, for what it says has expired already.
        hold(ours, "system:masters")
        assert (await client.list(PODS)).items == []
    finally:
        await client.close()
        await server.stop()
        await backend.close()
