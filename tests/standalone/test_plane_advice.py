"""What a server of this machine tells who writes objects that nobody here acts on."""

from __future__ import annotations

import pytest

from support.backends import OPTIONS
from unisono.api.kind_families import ATTACHED_CLUSTERS, DATA_SOURCES
from unisono.apiserver.admission import Admission
from unisono.apiserver.backend import Backend
from unisono.standalone.plane import NO_HUB, advisers

CLUSTER = {
    "apiVersion": "cluster.kurator.dev/v1alpha1",
    "kind": "AttachedCluster",
    "metadata": {"name": "gpu1", "namespace": "default"},
    "spec": {"kubeconfigSecretRef": "gpu1-config"},
}


@pytest.mark.parametrize(("fleet", "told"), [(False, [NO_HUB]), (True, [])])
async def test_members_without_a_hub(tmp_path, fleet, told):
    admission = Admission()
    admission.extend(advisers=advisers(fleet=fleet))
    backend = await Backend.open(tmp_path / "state.db", admission=admission)
    try:
        written = await backend.service.create(ATTACHED_CLUSTERS, "default", CLUSTER, OPTIONS)
        assert written.warnings == told
    finally:
        await backend.close()


def test_every_kind_of_a_fleet_has_it():
    assert {ATTACHED_CLUSTERS.resource, DATA_SOURCES.resource} <= advisers(fleet=False).keys()
