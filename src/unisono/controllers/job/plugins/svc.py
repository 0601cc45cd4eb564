"""Plug-ins ``svc`` and ``env``: pods of a job find each other by name, and learn their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from unisono.api.base import ObjectMeta
from unisono.api.core import (
    ConfigMap,
    ConfigMapKeySelector,
    ConfigMapVolumeSource,
    EnvVar,
    EnvVarSource,
    LabelSelector,
    NetworkPolicy,
    NetworkPolicyIngressRule,
    NetworkPolicyPeer,
    NetworkPolicySpec,
    Pod,
    Service,
    ServiceSpec,
    Volume,
    VolumeMount,
)
from unisono.api.keys import JOB_NAME, JOB_NAMESPACE
from unisono.api.kinds import CONFIG_MAPS, JOBS, NETWORK_POLICIES, SERVICES
from unisono.controllers.job.plugins.base import JobPlugin, PluginError, containers, flag_bool, read_flags, set_env
from unisono.controllers.job.view import TaskView
from unisono.controllers.keys import LONGEST_VARIABLE, list_too_long
from unisono.controllers.owners import owned_by
from unisono.controllers.plan import Resource

# Plug-in ``env``: each pod learns its number within its task.

# The first is Volcano's older name of the same value.
VARIABLES = ("VK_TASK_INDEX", "VC_TASK_INDEX")


class EnvPlugin(JobPlugin):
    """Sets ``VC_TASK_INDEX`` and ``VK_TASK_INDEX``; no arguments."""

    name = "env"

    def prepare(self, pod: Pod, task: TaskView, index: int) -> None:
        """Set the variables in all containers and init containers."""
        for container in containers(pod):
            for variable in VARIABLES:
                set_env(container, EnvVar(name=variable, value=str(index)))


# Plug-in ``svc``: pods of a job find each other by name.

MOUNT_PATH = "/etc/volcano"
_FLAGS = {"publish-not-ready-addresses": "false", "disable-network-policy": "false", "inject-hosts-env": "true"}


class SvcPlugin(JobPlugin):
    """Gives the job a headless Service, and its pods host names and lists of all hosts.

    Arguments: ``--publish-not-ready-addresses`` (false), ``--inject-hosts-env`` (true), ``--disable-network-policy``
    (false): without it a NetworkPolicy lets only pods of the job reach pods of the job.

    The ConfigMap ``<job>-svc`` holds, per task with ``-`` written as ``_``: ``<task>.host``, one host per line;
    ``VC_<TASK>_HOSTS``, the hosts joined by commas; ``VC_<TASK>_NUM``, their number. A list of hosts that is too long
    for an environment variable is in the ConfigMap alone: with it no container would start.
    """

    name = "svc"
    flags = _FLAGS

    def read(self, arguments: Sequence[str]) -> None:
        """Take the flags."""
        flags = read_flags(arguments, _FLAGS)
        self.publish = flag_bool(self.name, flags, "publish-not-ready-addresses")
        self.inject = flag_bool(self.name, flags, "inject-hosts-env")
        self.isolate = not flag_bool(self.name, flags, "disable-network-policy")

    @property
    def config_map_name(self) -> str:
        """``<job>-svc``."""
        return f"{self.view.name}-svc"

    def prepare(self, pod: Pod, task: TaskView, index: int) -> None:
        """Set host name and subdomain, mount the hosts files, and refer to the lists by environment variables."""
        spec = pod.spec
        spec.hostname = spec.hostname or pod.metadata.name
        spec.subdomain = spec.subdomain or self.view.name
        volume = self.config_map_name
        spec.volumes = [*(spec.volumes or ()), Volume(name=volume, config_map=ConfigMapVolumeSource(name=volume))]
        for container in containers(pod):
            mounts = container.volume_mounts or []
            container.volume_mounts = [*mounts, VolumeMount(name=volume, mount_path=MOUNT_PATH)]
            if self.inject:
                for variable in self._variables():
                    set_env(container, variable)

    def resources(self) -> Iterable[Resource]:
        """The hosts' ConfigMap, the headless Service, and the NetworkPolicy."""
        view = self.view
        members = {JOB_NAME: view.name, JOB_NAMESPACE: view.namespace}
        what = f"plug-in {self.name}"
        yield Resource(
            CONFIG_MAPS, ConfigMap(metadata=self._meta(self.config_map_name), data=self.hosts_data()), what=what
        )
        yield Resource(
            SERVICES,
            Service(
                metadata=self._meta(view.name),
                spec=ServiceSpec(
                    cluster_ip="None",
                    selector=members,
                    publish_not_ready_addresses=self.publish or None,
                ),
            ),
            what=what,
        )
        if self.isolate:
            pods = LabelSelector(match_labels=members)
            spec = NetworkPolicySpec(
                pod_selector=pods,
                ingress=[NetworkPolicyIngressRule(from_=[NetworkPolicyPeer(pod_selector=pods)])],
                policy_types=["Ingress"],
            )
            policy = NetworkPolicy(metadata=self._meta(view.name), spec=spec)
            yield Resource(NETWORK_POLICIES, policy, what=what)

    def hosts_data(self) -> dict[str, str]:
        """Content of the ConfigMap.

        Raises:
            PluginError: it is longer than a ConfigMap may be.

        """
        data: dict[str, str] = {}
        for task in self.view.tasks:
            hosts = self._hosts[task.name]
            data[f"{task.name.replace('-', '_')}.host"] = "\n".join(hosts)
            data[f"{_variable(task)}_HOSTS"] = ",".join(hosts)
            data[f"{_variable(task)}_NUM"] = str(len(hosts))
        if why := list_too_long(self.view.total, sum(map(len, data.values()))):
            raise PluginError(f"plug-in {self.name}: {why}")
        return data

    def remarks(self) -> Iterator[tuple[str, str]]:
        """Lists of hosts that do not reach the environment."""
        yield from super().remarks()
        for task in self.view.tasks if self.inject else ():
            if task.name in self._too_long:
                file = f"{MOUNT_PATH}/{task.name.replace('-', '_')}.host"
                text = f"{_variable(task)}_HOSTS is too long for an environment variable: read the hosts from {file}"
                yield "TooManyHosts", text

    @cached_property
    def _hosts(self) -> dict[str, list[str]]:
        return {task.name: task.hosts() for task in self.view.tasks}

    @cached_property
    def _too_long(self) -> frozenset[str]:
        """Names of tasks whose hosts do not fit into a variable."""
        return frozenset(
            task.name
            for task in self.view.tasks
            # One more for each host: a comma, or the zero after the last one.
            if len(f"{_variable(task)}_HOSTS=") + sum(len(host) + 1 for host in self._hosts[task.name])
            > LONGEST_VARIABLE
        )

    def _variables(self) -> Iterable[EnvVar]:
        for task in self.view.tasks:
            names = [f"{_variable(task)}_HOSTS", f"{_variable(task)}_NUM"]
            for name in names[1:] if task.name in self._too_long else names:
                reference = ConfigMapKeySelector(name=self.config_map_name, key=name)
                yield EnvVar(name=name, value_from=EnvVarSource(config_map_key_ref=reference))

    def _meta(self, name: str) -> ObjectMeta:
        view = self.view
        return ObjectMeta(name=name, namespace=view.namespace, owner_references=[owned_by(JOBS, view.job)])


def _variable(task: TaskView) -> str:
    return f"VC_{task.name.replace('-', '_').upper()}"
