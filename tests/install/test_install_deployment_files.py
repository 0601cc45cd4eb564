"""The chart, the manifests and the dashboards say the same as the code, and name only what there is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner
from install_chart import CHART, key, rendered
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest

from support.plane import REPOSITORY
from unisono.apiserver.custom import rules
from unisono.cli.commands.install import command
from unisono.cli.main import cli
from unisono.install.manifests import manifests
from unisono.install.monitoring import ALERTS, DASHBOARDS, dashboard
from unisono.install.rights import FLEET_NAMESPACE
from unisono.install.workloads import NAMESPACE, InstallOptions
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig
from unisono.scheduler.metrics import Metrics
from unisono.standalone.component import Component
from unisono.webhook.server import WebhookServer

ANYWHERE = ClusterConfig(server="https://127.0.0.1:1")
METRIC = re.compile(r"\b(?:volcano|unisono|rest_client|leader_election|process)_[a-z0-9_]+")


def everything(**options: Any) -> dict[tuple[str, str], dict[str, Any]]:
    return {key(one): one for one in manifests(InstallOptions(**options))}


def test_the_generated_files_are_current() -> None:
    script = REPOSITORY / "scripts" / "deployment_files.py"
    done = subprocess.run([sys.executable, str(script), "--check"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


# ---- what is installed


def test_simulated_nodes_beat_faster_than_a_node_controller_loses_patience() -> None:
    agent = everything(simulate=3)["Deployment", "unisono-agent"]
    given = agent["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--heartbeat=10" in given


def test_what_comes_later_needs_only_what_comes_earlier() -> None:
    kinds = [one["kind"] for one in manifests(InstallOptions())]
    first = {kind: kinds.index(kind) for kind in kinds}
    last = {kind: len(kinds) - 1 - kinds[::-1].index(kind) for kind in kinds}
    for earlier, later in (
        ("CustomResourceDefinition", "Queue"),
        ("Namespace", "ServiceAccount"),
        ("ServiceAccount", "Deployment"),
        ("ConfigMap", "Deployment"),
        ("Queue", "ValidatingAdmissionPolicy"),
        ("Deployment", "MutatingWebhookConfiguration"),
    ):
        assert last[earlier] < first[later], (earlier, later)


def test_pods_have_no_privileges_and_are_looked_after() -> None:
    for (kind, name), one in everything(dashboard=True).items():
        if kind != "Deployment":
            continue
        assert one["spec"]["replicas"] == (1 if name == "unisono-dashboard" else 2)
        pod = one["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert ("ServiceAccount", pod["serviceAccountName"]) in everything(dashboard=True)
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name
        assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}


@pytest.mark.parametrize("hub", [False, True])
def test_every_command_line_is_one_that_the_program_accepts(hub: bool) -> None:
    named = {
        "hub": hub,
        "dashboard": True,
        "dashboard_names": ("d.example.com",),
        "dashboard_token_header": "Authorization",
        "history_secret": "history",
        "numa_exporter": True,
    }
    for (kind, _), one in everything(**named).items():
        if kind not in ("Deployment", "DaemonSet"):
            continue
        name, *arguments = one["spec"]["template"]["spec"]["containers"][0]["args"]
        found = cli.get_command(click.Context(cli), name)
        assert found is not None
        given = [text for text in arguments if not text.startswith(("--config=", "--certificate-", "--history-dsn"))]
        given += ["--node-name=n"] if kind == "DaemonSet" else []  # $NODE_NAME in the pod
        context = found.make_context(name, given)
        assert context.params["listen"].startswith(":")
        assert bool(context.params.get("fleet")) == (hub and name in ("scheduler", "controllers"))


def test_a_hub_has_rights_of_its_own_and_reads_secrets_where_its_members_are() -> None:
    found = manifests(InstallOptions(hub=True))
    roles = {
        (one["metadata"].get("namespace", ""), rule["resources"][0]): rule["verbs"]
        for one in found
        if one["kind"] in ("ClusterRole", "Role") and one["metadata"]["name"] == "unisono-scheduler"
        for rule in one["rules"]
        if "secrets" in rule["resources"] or "pods" in rule["resources"] or "nodes" in rule["resources"]
    }
    assert roles == {("kube-system", "secrets"): ["get"], (FLEET_NAMESPACE, "secrets"): ["get"]}
    names = [(one["kind"], one["metadata"]["name"], one["metadata"].get("namespace")) for one in found]
    role = names.index(("Role", "unisono-scheduler", FLEET_NAMESPACE))
    assert names.index(("Namespace", FLEET_NAMESPACE, None)) < role
    gone = CliRunner().invoke(command, ["--uninstall", "--dry-run=client"])
    left = [(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(gone.output)]
    assert left.count(("Role", "unisono-scheduler")) == 3
    assert ("Namespace", FLEET_NAMESPACE) not in left


@pytest.mark.parametrize(
    ("option", "kind"),
    [
        ("crds", "CustomResourceDefinition"),
        ("policies", "ValidatingAdmissionPolicy"),
        ("webhook", "ValidatingWebhookConfiguration"),
        ("monitoring", "PrometheusRule"),
        ("dashboard", "unisono-dashboard"),
        ("numa_exporter", "DaemonSet"),
    ],
)
def test_parts_can_be_left_out(option: str, kind: str) -> None:
    assert any(kind in found for found in everything(**{option: True}))
    assert not any(kind in found for found in everything(**{option: False}))


def test_the_dashboard_has_an_account_without_rights_and_without_a_token() -> None:
    made = everything(dashboard=True)
    assert made["ServiceAccount", "unisono-dashboard"]["automountServiceAccountToken"] is False
    assert made["Deployment", "unisono-dashboard"]["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    bound = [one for (kind, _), one in made.items() if kind.endswith("RoleBinding")]
    assert bound
    assert "unisono-dashboard" not in str(bound)


@pytest.mark.parametrize(
    ("options", "may"),
    [
        ({}, False),
        ({"history_secret": "history"}, True),
        ({"history_prometheus": "http://prometheus:9090"}, True),
        ({"history_secret": "history", "dashboard": False}, False),
    ],
)
def test_users_may_ask_the_dashboard_where_it_knows_a_history(options: dict[str, Any], may: bool) -> None:
    made = everything(**{"dashboard": True, **options})
    name = "unisono-history-questions"
    assert (("Role", name) in made, ("RoleBinding", name) in made) == (may, may)
    if not may:
        return
    [rule] = made["Role", name]["rules"]
    assert rule == {
        "apiGroups": [""],
        "resources": ["services/proxy"],
        "resourceNames": ["unisono-dashboard:http"],
        "verbs": ["get"],
    }
    [everybody] = made["RoleBinding", name]["subjects"]
    assert everybody["name"] == "system:authenticated"
    arguments = made["Deployment", "unisono-dashboard"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert any(text.startswith("--history-") for text in arguments)


def test_two_histories_are_refused_and_an_uninstallation_takes_the_right_to_ask_along() -> None:
    both = ["--history-dsn-secret", "x", "--history-prometheus", "http://x", "--dry-run=client"]
    done = CliRunner().invoke(command, both)
    assert done.exit_code == 2
    assert "name two histories" in done.output
    done = CliRunner().invoke(command, ["--uninstall", "--dry-run=client"])
    assert done.exit_code == 0, done.output
    gone = {(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(done.output)}
    assert {("Role", "unisono-history-questions"), ("RoleBinding", "unisono-history-questions")} <= gone


def test_only_who_writes_history_and_who_shows_it_get_the_secret() -> None:
    made = everything(dashboard=True, history_secret="history", history_reader_secret="readers")
    secrets = {
        name: [each["secret"]["secretName"] for each in one["spec"]["template"]["spec"]["volumes"] if "secret" in each]
        for (kind, name), one in made.items()
        if kind == "Deployment"
    }
    assert {name: each for name, each in secrets.items() if each} == {
        "unisono-controllers": ["history"],
        "unisono-dashboard": ["readers"],
    }
    # The password is in the Secret alone: nothing may read it but those pods, through their volumes.
    assert not [one for (kind, _), one in made.items() if kind == "Secret"]


def test_who_reads_files_of_nodes_has_nothing_else() -> None:
    made = everything(numa_exporter=True, kubelet_config="/etc/kubernetes/kubelet/config.json")
    place = f"{NAMESPACE}-nodes"
    pod = made["DaemonSet", "unisono-numa-exporter"]["spec"]["template"]["spec"]
    assert made["DaemonSet", "unisono-numa-exporter"]["metadata"]["namespace"] == place
    assert made["Namespace", place]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert made["Namespace", NAMESPACE]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    hosts = {each["name"]: each["hostPath"]["path"] for each in pod["volumes"] if "hostPath" in each}
    assert hosts == {"kubelet": "/var/lib/kubelet", "config": "/etc/kubernetes/kubelet"}
    assert {each["name"] for each in container["volumeMounts"] if each.get("readOnly")} == set(hosts)
    assert "--kubelet-config=/host/config/config.json" in container["args"]
    rights = made["ClusterRole", "unisono-numa-exporter"]["rules"]
    assert {(*rule["resources"], *rule["verbs"]) for rule in rights} == {
        ("nodes", "get"),
        ("numatopologies", "create", "get", "patch"),
    }


@pytest.mark.parametrize(
    ("extra", "allowed"),
    [
        ({"authentication.kubernetes.io/node-name": ["node-1"]}, True),
        ({"authentication.kubernetes.io/node-name": ["node-2"]}, False),
        ({"authentication.kubernetes.io/pod-name": ["node-1"]}, False),
        # A server that puts no node into its tokens.
        (None, False),
    ],
)
def test_an_exporter_writes_for_its_own_node_alone(extra: dict[str, list[str]] | None, allowed: bool) -> None:
    spec = everything(numa_exporter=True)["ValidatingAdmissionPolicy", "numatopologies-of-own-nodes.unisono"]["spec"]
    user = {"username": f"system:serviceaccount:{NAMESPACE}-nodes:unisono-numa-exporter"}
    user |= {} if extra is None else {"extra": extra}
    seen = {"object": {"metadata": {"name": "node-1"}}, "request": {"userInfo": user}}
    (condition,), (rule,) = spec["matchConditions"], spec["validations"]
    assert rules.holds(condition["expression"], seen, rules.budget())
    assert rules.holds(rule["expression"], seen, rules.budget()) is allowed
    others = {"object": seen["object"], "request": {"userInfo": {"username": "admin"}}}
    assert not rules.holds(condition["expression"], others, rules.budget())


def test_the_command_prints_what_is_asked_for(tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text('actions: "allocate"\ntiers: [{plugins: [{name: gang}]}]\n')
    arguments = ["--dry-run", "--no-crds", "-n", "batch", "--image", "x:1", "--replicas", "3", "--config", str(config)]
    done = CliRunner().invoke(command, [*arguments, "--scheduler-name", "mine"])
    assert done.exit_code == 0, done.output
    made = {key(one): one for one in yaml.safe_load_all(done.output)}
    scheduler = made["Deployment", "unisono-scheduler"]
    assert scheduler["metadata"]["namespace"] == "batch"
    assert scheduler["spec"]["replicas"] == 3
    container = scheduler["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "x:1"
    assert "--scheduler-name=mine" in container["args"]
    assert made["ConfigMap", "unisono-scheduler"]["data"]["unisono-scheduler.conf"] == config.read_text()


def test_a_configuration_that_the_scheduler_would_refuse_is_not_installed(tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text('actions: "fly"\n')
    done = CliRunner().invoke(command, ["--dry-run", "--config", str(config)])
    assert done.exit_code != 0
    assert "fly" in str(done.exception)


# ---- the chart


def plain(value: Any) -> Any:
    """Without what differs on purpose: labels of the tool that installs."""
    if isinstance(value, dict):
        dropped = ("labels", "imagePullPolicy")
        return {name: plain(each) for name, each in value.items() if name not in dropped}
    return [plain(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("simulate", [0, 100_000])
@pytest.mark.parametrize(
    "history",
    [("", "", ""), ("history", "", ""), ("history", "readers", ""), ("", "readers", ""), ("", "", "http://p:9090/x")],
)
def test_the_chart_makes_what_the_command_makes(simulate: int, history: tuple[str, str, str]) -> None:
    page = {"enabled": True, "names": ["d.example.com", "e.example.com:8443"], "tokenHeader": "Authorization"}
    kept = {"secret": history[0], "readerSecret": history[1], "prometheus": history[2], "days": 30}
    config = "/etc/kubernetes/kubelet/config.json" if simulate else "/opt/kubelet/config.yaml"
    numa = {"enabled": True, "kubeletDir": "/opt/kubelet", "kubeletConfig": config}
    chart = rendered(
        monitoring={"enabled": True},
        agent={"simulate": simulate},
        dashboard=page,
        history=kept,
        numaExporter=numa,
    )
    ours = everything(
        crds=False,
        monitoring=True,
        simulate=simulate,
        dashboard=True,
        dashboard_names=("d.example.com", "e.example.com:8443"),
        dashboard_token_header="Authorization",
        history_secret=history[0],
        history_reader_secret=history[1],
        history_prometheus=history[2],
        history_days=30,
        numa_exporter=True,
        kubelet_dir="/opt/kubelet",
        kubelet_config=config,
    )
    elsewhere = {("Namespace", NAMESPACE), ("Queue", "root"), ("Queue", "default")}
    assert set(chart) == set(ours) - elsewhere
    for name, one in chart.items():
        assert plain(one) == plain(ours[name]), name


def test_the_chart_makes_the_hub_that_the_command_makes() -> None:
    chart, ours = rendered(hub={"enabled": True}), everything(crds=False, hub=True)
    assert set(chart) == set(ours) - {("Namespace", NAMESPACE), ("Queue", "root"), ("Queue", "default")}
    for name, one in chart.items():
        assert plain(one) == plain(ours[name]), name


def test_the_chart_makes_the_same_in_another_namespace() -> None:
    chart = rendered("batch")
    ours = everything(crds=False, namespace="batch")
    for name, one in chart.items():
        assert plain(one) == plain(ours[name]), name


def test_dashboards_come_as_config_maps() -> None:
    made = rendered(monitoring={"dashboards": True})
    for name in DASHBOARDS:
        found = made["ConfigMap", name]
        assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert json.loads(found["data"][f"{name}.json"]) == dashboard(name)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"schedulerName": "volcano"}, "schedulerName"),
        ({"scheduler": {"replica": 3}}, "replica"),
        ({"webhook": {"enabled": "no"}}, "enabled"),
        ({"dashboard": {"names": ["a b"]}}, "names"),
        ({"dashboard": {"tokenHeader": "X: y"}}, "tokenHeader"),
        ({"schedulerNames": []}, "schedulerNames"),
        ({"numaExporter": {"kubeletDir": "../etc"}}, "kubeletDir"),
        ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
        ({"scheduler": {"affinity": {"nodeAfinity": {}}}}, "nodeAfinity"),
        ({"webhook": {"topologySpreadConstraints": [{"maxSkew": 1}]}}, "topologyKey"),
        ({"podAnnotations": {"a": 1}}, "podAnnotations"),
        ({"serviceAccount": {"name": "other"}}, "name"),
        ({"networkPolicy": {"metricsFrom": [{"cidr": "10.0.0.0/8"}]}}, "cidr"),
        ({"nameOverride": "a b"}, "nameOverride"),
        ({"dashboard": {"enabled": True, "ingress": {"enabled": True}}}, "needs dashboard.names"),
    ],
)
def test_wrong_values_are_refused_by_name(values: dict[str, Any], told: str) -> None:
    rendered()
    with pytest.raises(Exception, match=told):
        rendered(**values)


def test_the_schema_of_the_values_knows_each_value_and_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def compare(schema: dict[str, Any], value: Any, path: str) -> None:
        types = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
        assert "enum" in schema or isinstance(value, types[schema["type"]]), path
        if "properties" in schema:
            affinity = {"nodeAffinity", "podAffinity", "podAntiAffinity"}
            optional = {"global"} if not path else {"claims", "limits"} | affinity
            assert set(schema["properties"]) - optional == set(value) - optional, path
            assert schema["additionalProperties"] is False, path
            for key, each in value.items():
                compare(schema["properties"][key], each, f"{path}.{key}")

    compare(schema, values, "")


def test_values_are_used() -> None:
    made = rendered(
        webhook={"enabled": False},
        policies={"enabled": False},
        schedulerNames=["one"],
        scheduler={"extraArgs": ["--bind-concurrency=8"]},
    )
    assert not any("ebhook" in name or "Policy" in kind for kind, name in made)
    args = made["Deployment", "unisono-scheduler"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert args[-2:] == ["--scheduler-name=one", "--bind-concurrency=8"]


PODS = [("Deployment", f"unisono-{name}") for name in ("scheduler", "controllers", "webhook", "agent", "dashboard")]
ALL: dict[str, Any] = {"agent": {"simulate": 3}, "dashboard": {"enabled": True}, "numaExporter": {"enabled": True}}


def test_pods_can_be_annotated_and_named() -> None:
    made = rendered(**ALL, podAnnotations={"mesh.example.com/inject": "false"}, nameOverride="batch")
    for place in [*PODS, ("DaemonSet", "unisono-numa-exporter")]:
        template = made[place]["spec"]["template"]
        assert template["metadata"]["annotations"] == {"mesh.example.com/inject": "false"}
        assert template["metadata"]["labels"]["app.kubernetes.io/name"] == "batch"
        selected = made[place]["spec"]["selector"]["matchLabels"]
        assert selected.items() <= template["metadata"]["labels"].items()
    for (kind, name), one in made.items():
        if kind == "Service":
            assert one["spec"]["selector"] == made["Deployment", name]["spec"]["selector"]["matchLabels"]


@pytest.mark.parametrize("component", ["scheduler", "controllers", "webhook", "agent", "dashboard", "numaExporter"])
def test_pods_of_each_component_can_be_placed(component: str) -> None:
    key, place = "topology.kubernetes.io/zone", {"requiredDuringSchedulingIgnoredDuringExecution": {}}
    spread = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    own: dict[str, Any] = {"affinity": {"nodeAffinity": place}, "nodeSelector": {"a": "b"}}
    own |= {} if component == "numaExporter" else {"topologySpreadConstraints": [spread]}
    made = rendered(**ALL | {component: ALL.get(component, {}) | own})
    chosen = (
        ("DaemonSet", "unisono-numa-exporter")
        if component == "numaExporter"
        else ("Deployment", f"unisono-{component}")
    )
    for found in [*PODS, ("DaemonSet", "unisono-numa-exporter")]:
        pod = made[found]["spec"]["template"]["spec"]
        assert ("affinity" in pod) == (found == chosen)
        assert (pod.get("topologySpreadConstraints") == [spread]) == (found == chosen and component != "numaExporter")
    assert made[chosen]["spec"]["template"]["spec"]["nodeSelector"].items() >= {"a": "b"}.items()


def test_accounts_can_be_annotated_or_those_of_others() -> None:
    made = rendered(**ALL, serviceAccount={"annotations": {"example.com/role": "r"}})
    accounts = [one for (kind, _), one in made.items() if kind == "ServiceAccount"]
    assert len(accounts) == 6
    assert {one["metadata"]["annotations"]["example.com/role"] for one in accounts} == {"r"}
    without = rendered(**ALL, serviceAccount={"create": False})
    assert [name for kind, name in without if kind == "ServiceAccount"] == ["unisono-numa-exporter"]
    assert {place for place in made if place[0] != "ServiceAccount"} <= set(without)


def test_an_ingress_serves_the_names_of_the_dashboard() -> None:
    page = {"enabled": True, "names": ["d.example.com", "e.example.com:8443"]}
    assert ("Ingress", "unisono-dashboard") not in rendered(dashboard=page)
    ingress = {"enabled": True, "className": "nginx", "annotations": {"a": "b"}, "tlsSecret": "cert"}
    one = rendered(dashboard=page | {"ingress": ingress})["Ingress", "unisono-dashboard"]
    assert one["metadata"]["annotations"] == {"a": "b"}
    assert one["spec"]["ingressClassName"] == "nginx"
    assert one["spec"]["tls"] == [{"secretName": "cert", "hosts": ["d.example.com", "e.example.com"]}]
    assert [rule["host"] for rule in one["spec"]["rules"]] == ["d.example.com", "e.example.com"]


def test_network_policies_let_in_what_components_serve() -> None:
    peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    made = rendered(**ALL, networkPolicy={"enabled": True, "metricsFrom": peers})
    policies = {name: one["spec"] for (kind, name), one in made.items() if kind == "NetworkPolicy"}
    assert set(policies) == {name for _, name in PODS}
    for name, spec in policies.items():
        template = made["Deployment", name]["spec"]["template"]
        assert spec["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        # Every port of the pods is let in, and nothing else.
        ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
        assert {port["port"] for rule in spec["ingress"] for port in rule["ports"]} == ports
        assert spec["ingress"][0]["from"] == peers
    assert not any(kind == "NetworkPolicy" for kind, _ in rendered(**ALL))


def test_pod_monitors_stand_in_for_service_monitors() -> None:
    made = rendered(**ALL, monitoring={"enabled": True, "pods": True})
    assert not any(kind == "ServiceMonitor" for kind, _ in made)
    monitors = {name: one["spec"] for (kind, name), one in made.items() if kind == "PodMonitor"}
    assert set(monitors) == {f"unisono-{name}" for name in ("scheduler", "controllers", "webhook", "agent")}
    for name, spec in monitors.items():
        (endpoint,) = spec["podMetricsEndpoints"]
        container = made["Deployment", name]["spec"]["template"]["spec"]["containers"][0]
        assert endpoint["port"] in {port["name"] for port in container["ports"]}


# ---- metrics


def exported() -> set[str]:
    """Names of all series that the processes export, those of histograms too."""
    component = Component("x", ANYWHERE, make=lambda client, registry: None)
    registry = CollectorRegistry()
    Metrics(registry)
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    WebhookServer(HttpClient(ANYWHERE), registry, host="", port=0, namespace="n")
    text = (generate_latest(registry) + generate_latest(component.registry)).decode()
    names = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            names |= {name, f"{name}_bucket", f"{name}_sum", f"{name}_count"} if kind == "histogram" else {name}
    return names


def test_every_metric_that_alerts_and_dashboards_name_is_exported() -> None:
    queries = [alert.expression for alert in ALERTS]
    queries += [
        target["expr"] for name in DASHBOARDS for panel in dashboard(name)["panels"] for target in panel["targets"]
    ]
    known = exported()
    named = {name for query in queries for name in METRIC.findall(query)}
    assert len(named) > 15
    assert not named - known


def test_dashboards_can_be_imported() -> None:
    for name in DASHBOARDS:
        made = json.loads((REPOSITORY / "deploy" / "monitoring" / "dashboards" / f"{name}.json").read_text())
        assert made["uid"] == name
        places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in made["panels"]]
        assert len(set(places)) == len(places)
