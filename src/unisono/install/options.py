"""What can be chosen when the manifests of an installation are made."""

from __future__ import annotations

from dataclasses import dataclass

from unisono import __version__
from unisono.api.keys import APP_NAME, APP_PART_OF

NAMESPACE = "unisono-system"


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
    image: str = f"unisono:{__version__}"
    replicas: int = 2
    scheduler_names: tuple[str, ...] = ("volcano", "unisono")
    scheduler_config: str = ""
    crds: bool = True
    policies: bool = True
    webhook: bool = True
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
