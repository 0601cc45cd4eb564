"""The numbers of ``python -m benchmarks.e2e`` come from what the processes tell."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from benchmarks.e2e import accounts, admission, load, processes, report, volcano_webhooks
from integration_servers import PREFIX

from unisono.agent.node import renew_lease
from unisono.api.base import ObjectMeta
from unisono.api.core import Node
from unisono.api.kinds import LEASES, NODES
from unisono.install.manifests import manifests
from unisono.install.workloads import InstallOptions
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig

METRICS = """
# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.
process_cpu_seconds_total 12.5
process_resident_memory_bytes 1.5e+08
rest_client_requests_total{code="201",method="POST",resource="pods"} 16.0
rest_client_requests_total{code="201",method="POST",resource="pods/binding"} 16.0
rest_client_requests_total{code="409",method="PATCH",resource="podgroups"} 1.0
rest_client_requests_total{code="200",method="PATCH",resource="podgroups"} 3.0
rest_client_requests_total{code="200",method="GET",resource="pods"} 99.0
rest_client_requests_created{code="200",method="GET",resource="pods"} 1.7e+09
volcano_e2e_scheduling_latency_milliseconds_bucket{le="1.0"} 2.0
volcano_e2e_scheduling_latency_milliseconds_count 4.0
volcano_e2e_scheduling_latency_milliseconds_sum 500.0
"""


def run(usage: dict[str, Any]) -> Any:
    return report.Run("2 x 8", 16, load.Followed(0.1, 1.0, 2.0, 3.0), usage)


def test_each_round_begins_with_another_setup() -> None:
    assert [report.turned(["a", "b", "c"], number) for number in range(4)] == [
        ["a", "b", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["a", "b", "c"],
    ]
    assert report.turned(["a"], 5) == ["a"]


def test_usage_is_read_from_prometheus_text() -> None:
    usage = processes.usage_of(METRICS)
    assert (usage.cpu_seconds, usage.rss_bytes, usage.cycles, usage.cycle_seconds) == (12.5, 150_000_000, 4, 0.5)
    assert usage.requests["PATCH", "podgroups", "409"] == 1
    assert usage.requests.total() == 135


def test_what_was_before_is_not_counted() -> None:
    before, after = (
        processes.usage_of(METRICS),
        processes.usage_of(METRICS.replace("12.5", "13.0").replace('pods"} 16', 'pods"} 20')),
    )
    since = after.since(before)
    assert (since.cpu_seconds, since.cycles) == (0.5, 0)
    assert dict(since.requests) == {("POST", "pods", "201"): 4}


def test_writes_per_pod_count_refused_tries_and_no_reads() -> None:
    found = run({"scheduler": processes.usage_of(METRICS)})
    assert found.writes() == {"create pod": 16, "bind": 16, "PodGroup status": 4}
    assert found.writes_per_pod == 36 / 16
    assert found.pods_per_second == 8.0
    speed, requests, cost, by_component = report.tables([found], None)
    assert "| 2 x 8 | 8 | 0.1 s | 1.0 s | 2.0 s | 3.0 s |" in speed
    assert "| 2 x 8 | 2.25 | 1.00 | 1.00 |" in requests
    assert "| 2 x 8 | 12.5 s, 150 MB | 4 in 0.5 s |" in cost
    assert "| 2 x 8 | scheduler | 8.44 | GET pods 6.19, POST pods 1.00, POST pods/binding 1.00, " in by_component
    assert "PATCH podgroups 0.19, PATCH podgroups (409) 0.06 |" in by_component


SERVED = """
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="",subresource="",verb="POST",version="v1"} 16
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",subresource="binding",verb="POST",version="v1"} 16
apiserver_request_total{code="200",component="apiserver",group="batch.volcano.sh",resource="jobs",subresource="",verb="GET",version="v1beta1"} 37
apiserver_request_total{code="404",component="apiserver",group="batch.volcano.sh",resource="jobs",subresource="",verb="GET",version="v1beta1"} 3
"""  # noqa: E501


def test_requests_of_all_clients_are_read_from_the_server() -> None:
    served = processes.served(SERVED)
    assert served == {("POST", "pods"): 16, ("POST", "pods/binding"): 16, ("GET", "jobs"): 40}
    assert processes.served(METRICS) == {}


def test_setups_are_compared_round_by_round() -> None:
    def one(setup: str, bound: float, cpu: float) -> Any:
        usage = {
            "scheduler": processes.Usage(1.0, 0),
            "API server": processes.Usage(cpu, 0),
            "etcd": processes.Usage(2, 0),
        }
        return report.Run("2 x 8", 16, load.Followed(0.1, 1.0, bound, 3.0), usage, setup, processes.served(SERVED))

    runs = [
        one("definitions", 2.0, 4.0),
        one("installed", 4.0, 6.0),
        one("definitions", 4.0, 4.0),
        one("installed", 5.0, 8.0),
    ]
    *_, cost, _requests, served, ratios = report.tables(runs, None, {"binds_per_second": 820.4})
    assert "| 2 x 8 installed | 0.65 (0.50 to 0.80) | 1.75 (1.50 to 2.00) | 2 |" in ratios
    assert "| 2 x 8 installed | 1.0 s | 6.0 s | 2.0 s | 0 in 0.0 s |" in cost
    assert "| 2 x 8 | 4.50 | GET jobs 2.50, POST pods 1.00, POST pods/binding 1.00 |" in served


def test_volcano_is_asked_as_by_its_default_installation_about_one_namespace_alone() -> None:
    asked = {}
    for path, body in volcano_webhooks.configurations("space", 9443, b"authority"):
        (hook,) = body["webhooks"]
        assert hook["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "space"}}
        assert hook["failurePolicy"] == "Fail"
        (rule,) = hook["rules"]
        where = hook["clientConfig"]["url"].removeprefix("https://127.0.0.1:9443/")
        asked[path.rpartition("/")[2], where] = (rule["resources"], rule["operations"])
    assert asked == {
        ("mutatingwebhookconfigurations", "jobs/mutate"): (["jobs"], ["CREATE"]),
        ("validatingwebhookconfigurations", "jobs/validate"): (["jobs"], ["CREATE", "UPDATE"]),
        ("validatingwebhookconfigurations", "podgroups/validate"): (["podgroups"], ["CREATE"]),
    }


def test_cpu_of_any_process() -> None:
    assert processes.cpu_seconds(os.getpid()) > 0


def test_a_run_as_json_names_every_kind_of_request() -> None:
    found = json.loads(json.dumps(report.plain(run({"scheduler": processes.usage_of(METRICS)}))))
    assert (found["writes_per_pod"], found["pods_per_second"]) == (36 / 16, 8.0)
    assert found["usage"]["scheduler"]["requests"]["PATCH podgroups 409"] == 1
    assert found["usage"]["scheduler"]["requests"]["POST pods/binding 201"] == 16


def test_shapes() -> None:
    shape = load.parse_shape("200x8")
    assert (shape.jobs, shape.pods, shape.total) == (200, 8, 1600)
    with pytest.raises(ValueError, match="invalid literal"):
        load.parse_shape("200")


@pytest.mark.parametrize("server", ["embedded", "kube-apiserver"])
def test_the_page_has_a_place_for_the_results(server: str) -> None:
    text = report.PAGE.read_text()
    assert f"<!-- end to end on {server}: begin -->" in text
    assert f"<!-- end to end on {server}: end -->" in text


async def test_a_server_that_lives_on_keeps_no_node_of_the_measurement(config: ClusterConfig) -> None:
    client = HttpClient(config)
    try:
        space = await load.new_namespace(client, PREFIX)
        for number in range(3):
            await client.create(NODES, Node(metadata=ObjectMeta(name=f"{PREFIX}{number}")))
            await renew_lease(client, f"{PREFIX}{number}", 0.0)
        await client.create(NODES, Node(metadata=ObjectMeta(name=f"other-{PREFIX}0")))
        await load.remove_nodes(client, PREFIX)
        await load.remove(client, space)
        assert [node.metadata.name for node in (await client.list(NODES)).items] == [f"other-{PREFIX}0"]
        leases = (await client.list(LEASES, load.LEASE_NAMESPACE)).items
        assert not [lease for lease in leases if lease.metadata.name.startswith(PREFIX)]
        await client.delete(NODES, f"other-{PREFIX}0")
    finally:
        await client.close()


async def test_a_measurement_touches_no_roles_policies_or_webhooks_of_an_installation(
    config: ClusterConfig, tmp_path: Path
) -> None:
    client = HttpClient(config)
    mine = accounts.Accounts(client)
    try:
        await mine.make(tmp_path)
        made = [*mine._manifests, *admission.manifests(mine.namespace, "space", 1)]
        theirs = {(one["kind"], one["metadata"]["name"]) for one in manifests(InstallOptions(simulate=1))}
        assert not {(one["kind"], one["metadata"]["name"]) for one in made} & theirs - {
            ("ServiceAccount", f"unisono-{name}") for name in accounts.COMPONENTS
        }
        for one in mine._manifests:
            status, _, _ = await client.request("GET", accounts.path_of(one))
            assert status == 200, one
    finally:
        await mine.remove()
        for one in mine._manifests:
            status, _, _ = await client.request("GET", accounts.path_of(one))
            assert status == 404, one
        await client.close()
