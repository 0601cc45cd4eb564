"""Deployments, Services and disruption budgets of the components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unisono import __version__
from unisono.api.annotations import CYCLES_LEASE
from unisono.api.keys import APP_NAME, APP_PART_OF, HOSTNAME
from unisono.engine.config_file.reader import DEFAULT_TEXT
from unisono.scheduler.settings import INSTALLED_KEY, INSTALLED_NAME

# What can be chosen when the manifests of an installation are made.

NAMESPACE = "unisono-system"
IMAGE = "ghcr.io/unisono/unisono"
"""Where releases are put."""


@dataclass(frozen=True, slots=True)
class InstallOptions:
    """One installation.

    Attributes:
        namespace: where scheduler, controllers and webhook run.
        image: container image with the command ``unisono``.
        replicas: of each Deployment; one leads, the others stand by.
        scheduler_names: ``schedulerName`` of pods that this installation schedules.
        scheduler_config: text of the scheduler's configuration, in Volcano's format.
        crds: include the CustomResourceDefinitions.
        policies: include the ValidatingAdmissionPolicies.
        webhook: include the webhook server.
        hub: the cluster is the hub of a fleet, whose members run the jobs.
        simulate: that many simulated nodes, to try the rest out; none with 0.
        monitoring: include ServiceMonitors and alert rules, which need the Prometheus operator's kinds.
        dashboard: include the dashboard, which has no rights.
        dashboard_names: under which browsers reach it over HTTPS, through an Ingress or a Gateway.
        dashboard_token_header: in which an authenticating proxy sends tokens; empty for none.
        numa_exporter: include the DaemonSet that describes the CPUs of every node to the plug-in numa-aware.
        kubelet_dir: where the kubelets of the cluster keep their state.
        kubelet_config: the file of their configuration, in that directory or elsewhere on the nodes.
        history_secret: Secret in the namespace whose key ``dsn`` names the database of the history; empty for none.
        history_reader_secret: the same for the dashboard, which only reads it; empty where that is the same one.
        history_prometheus: address of a Prometheus that the dashboard reads the history from; empty for none.
        history_days: jobs that ended are kept there one by one for so long.
    """

    namespace: str = NAMESPACE
    image: str = f"{IMAGE}:{__version__}"
    replicas: int = 2
    scheduler_names: tuple[str, ...] = ("volcano", "unisono")
    scheduler_config: str = ""
    crds: bool = True
    policies: bool = True
    webhook: bool = True
    hub: bool = False
    simulate: int = 0
    monitoring: bool = False
    dashboard: bool = False
    dashboard_names: tuple[str, ...] = ()
    dashboard_token_header: str = ""
    numa_exporter: bool = False
    kubelet_dir: str = "/var/lib/kubelet"
    kubelet_config: str = "/var/lib/kubelet/config.yaml"
    history_secret: str = ""
    history_reader_secret: str = ""
    history_prometheus: str = ""
    history_days: int = 90

    @property
    def history_readers(self) -> str:
        """The Secret for components that only read the history."""
        return self.history_reader_secret or self.history_secret

    @property
    def shows_history(self) -> bool:
        """Whether the dashboard can answer questions about the past."""
        return bool(self.history_readers or self.history_prometheus)


def labels(component: str) -> dict[str, str]:
    """The labels of a component's objects."""
    return {**selector(component), APP_PART_OF: "unisono", "app.kubernetes.io/version": __version__}


def selector(component: str) -> dict[str, str]:
    """The labels by which a component's pods are found; they never change."""
    return {APP_NAME: "unisono", "app.kubernetes.io/component": component}


_CONFIG_DIR = "/etc/unisono"
HISTORY_DIR = "/etc/unisono-history"
HISTORY_FILE = f"{HISTORY_DIR}/dsn"
WEBHOOK_PORT = 8443
POD_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""Of every pod."""
HARDENED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
"""Of every container."""


@dataclass(frozen=True, slots=True)
class Component:
    """One process.

    Attributes:
        name: of the command ``unisono NAME``.
        port: of probes and metrics.
        cpu, memory: what its pod requests.
        leads: one replica works and the others stand by.
    """

    name: str
    port: int
    cpu: str
    memory: str
    leads: bool = True


SCHEDULER = Component("scheduler", 8080, "500m", "512Mi")
CONTROLLERS = Component("controllers", 8081, "200m", "256Mi")
WEBHOOK = Component("webhook", 8083, "100m", "256Mi", leads=False)
AGENT = Component("agent", 8082, "200m", "256Mi")


def components(options: InstallOptions) -> tuple[Component, ...]:
    """The components that the options ask for."""
    return (SCHEDULER, CONTROLLERS, *((WEBHOOK,) if options.webhook else ()), *((AGENT,) if options.simulate else ()))


def arguments(component: Component, options: InstallOptions) -> list[str]:
    """The component's command line."""
    named = [*(["--fleet"] if options.hub else ()), *(f"--scheduler-name={name}" for name in options.scheduler_names)]
    common = [component.name, f"--listen=:{component.port}"]
    match component.name:
        case "scheduler":
            heartbeat = f"--heartbeat-lease={options.namespace}/{CYCLES_LEASE}"
            return [*common, f"--config={_CONFIG_DIR}/{INSTALLED_KEY}", heartbeat, *named]
        case "agent":
            # A cluster has a node controller, whose patience is less than a minute.
            return [*common, f"--simulate={options.simulate}", "--heartbeat=10"]
        case "webhook":
            return [*common, f"--serve=:{WEBHOOK_PORT}", f"--service-namespace={options.namespace}"]
        case _:
            return [*common, *named, *history_arguments(options)]


def history_arguments(options: InstallOptions) -> list[str]:
    """Of the one that writes the history; a password stands in no command line and in no object but the Secret."""
    if not options.history_secret:
        return []
    return [f"--history-dsn-file={HISTORY_FILE}", f"--history-days={options.history_days}"]


def history_volume(secret: str) -> dict[str, Any]:
    """The Secret's keys as files: ``dsn``, and what that names, such as an authority's certificate."""
    return {"name": "history", "secret": {"secretName": secret, "defaultMode": 0o444}}


HISTORY_MOUNT = {"name": "history", "mountPath": HISTORY_DIR, "readOnly": True}


def config_map(options: InstallOptions) -> dict[str, Any]:
    """The scheduler's configuration; the running scheduler follows its changes."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _meta("unisono-scheduler", "scheduler", options),
        "data": {INSTALLED_KEY: options.scheduler_config or DEFAULT_TEXT},
    }


def workload(component: Component, options: InstallOptions) -> list[dict[str, Any]]:
    """Service, Deployment and disruption budget."""
    name = f"unisono-{component.name}"
    meta = _meta(name, component.name, options)
    chosen = {"matchLabels": selector(component.name)}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": _service(component)},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta,
            "spec": {
                "replicas": options.replicas,
                "selector": chosen,
                "template": {"metadata": {"labels": labels(component.name)}, "spec": _pod(component, options)},
            },
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": meta,
            "spec": {"maxUnavailable": 1, "selector": chosen},
        },
    ]


def _meta(name: str, component: str, options: InstallOptions) -> dict[str, Any]:
    return {"name": name, "namespace": options.namespace, "labels": labels(component)}


def _service(component: Component) -> dict[str, Any]:
    ports = [{"name": "metrics", "port": component.port, "targetPort": "metrics"}]
    if component is WEBHOOK:
        ports.append({"name": "webhook", "port": 443, "targetPort": "webhook"})
    return {"selector": selector(component.name), "ports": ports}


def _pod(component: Component, options: InstallOptions) -> dict[str, Any]:
    volumes: list[dict[str, Any]] = [{"name": "tmp", "emptyDir": {}}]
    if component is SCHEDULER:
        volumes.append({"name": "config", "configMap": {"name": INSTALLED_NAME}})
    if component is CONTROLLERS and options.history_secret:
        volumes.append(history_volume(options.history_secret))
    return {
        "serviceAccountName": f"unisono-{component.name}",
        "priorityClassName": "system-cluster-critical",
        "securityContext": POD_SECURITY,
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": HOSTNAME,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": selector(component.name)},
            }
        ],
        "containers": [_container(component, options)],
        "volumes": volumes,
    }


def _container(component: Component, options: InstallOptions) -> dict[str, Any]:
    ports = [{"name": "metrics", "containerPort": component.port}]
    mounts: list[dict[str, Any]] = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108  # nosec B108 # the pod's own volume
    if component is WEBHOOK:
        ports.append({"name": "webhook", "containerPort": WEBHOOK_PORT})
    if component is SCHEDULER:
        mounts.append({"name": "config", "mountPath": _CONFIG_DIR, "readOnly": True})
    if component is CONTROLLERS and options.history_secret:
        mounts.append(HISTORY_MOUNT)
    return {
        "name": component.name,
        "image": options.image,
        "args": arguments(component, options),
        "ports": ports,
        "livenessProbe": probe("/livez", failures=6),
        "readinessProbe": probe("/readyz", failures=3),
        "startupProbe": probe("/livez", failures=60, period=2),
        "resources": {"requests": {"cpu": component.cpu, "memory": component.memory}},
        "securityContext": HARDENED,
        "volumeMounts": mounts,
    }


def probe(path: str, *, failures: int, period: int = 10) -> dict[str, Any]:
    """A probe of the port of probes and metrics."""
    get = {"path": path, "port": "metrics"}
    return {"httpGet": get, "periodSeconds": period, "timeoutSeconds": 5, "failureThreshold": failures}
