"""Plugins by which tasks find each other: names and lists of hosts (svc), and keys for ssh."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from unisono.api import core
from unisono.api.base import LabelSelector, ObjectMeta
from unisono.api.keys import JOB_NAME, JOB_NAMESPACE
from unisono.api.kinds import CONFIG_MAPS, JOBS, NETWORK_POLICIES, SECRETS, SERVICES
from unisono.controllers.job.plugins.base import JobPlugin, PluginError, containers, flag_bool, read_flags, set_env
from unisono.controllers.job.view import TaskView
from unisono.controllers.owners import LONGEST_VARIABLE, list_too_long, owned_by, whole_number
from unisono.controllers.plan import Resource

# Plug-in ``ssh``: pods of a job log in to each other without a password.

DEFAULT_PATH = "/root/.ssh"
DEFAULT_PORT = 22
# Folder of the files within the volume; containers see it under the key path.
FOLDER = ".ssh"
PRIVATE, PUBLIC, AUTHORIZED, CONFIG = "id_rsa", "id_rsa.pub", "authorized_keys", "config"
KEY_BITS = 2048
_SSH_FLAGS = {
    "ssh-key-file-path": DEFAULT_PATH,
    "ssh-private-key": "",
    "ssh-public-key": "",
    "ssh-port": str(DEFAULT_PORT),
    # Users write it; the key path is what makes the difference.
    "no-root": "false",
}


class SshPlugin(JobPlugin):
    """Gives the pods one key pair and a list of hosts, in the Secret ``<job>-ssh``.

    Arguments: ``--ssh-key-file-path`` (/root/.ssh), ``--ssh-private-key`` and ``--ssh-public-key`` (PEM and OpenSSH
    texts; made once per job when absent), ``--ssh-port`` (22). With another path than root's the files can be read by
    every user of the container, which a user other than root needs.
    """

    name = "ssh"
    flags = _SSH_FLAGS

    def read(self, arguments: Sequence[str]) -> None:
        """Take the flags. A port that is none counts as 22."""
        flags = read_flags(arguments, _SSH_FLAGS)
        self.path = flags["ssh-key-file-path"] or DEFAULT_PATH
        self.private, self.public = flags["ssh-private-key"], flags["ssh-public-key"]
        port = whole_number(flags["ssh-port"]) or 0
        self.port = port if 1 <= port <= 65535 else DEFAULT_PORT
        if self.public and not self.private:
            raise PluginError("plug-in ssh: --ssh-public-key is given without --ssh-private-key; give both or neither.")
        if self.private and not self.public:
            self.public = _public_of(self.private)

    @property
    def secret_name(self) -> str:
        """``<job>-ssh``."""
        return f"{self.view.name}-ssh"

    def prepare(self, pod: core.Pod, task: TaskView, index: int) -> None:
        """Mount the files in every container and init container."""
        name = self.secret_name
        source = core.SecretVolumeSource(
            secret_name=name,
            items=[core.KeyToPath(key=key, path=f"{FOLDER}/{key}") for key in (PRIVATE, PUBLIC, AUTHORIZED, CONFIG)],
            default_mode=0o600 if self.path == DEFAULT_PATH else 0o644,
        )
        pod.spec.volumes = [*(pod.spec.volumes or ()), core.Volume(name=name, secret=source)]
        for container in containers(pod):
            mount = core.VolumeMount(name=name, mount_path=self.path, sub_path=FOLDER)
            container.volume_mounts = [*(container.volume_mounts or ()), mount]

    def resources(self) -> Iterable[Resource]:
        """The Secret. Its keys are made together with it and never again: pods that run keep the ones they have."""
        view = self.view
        meta = ObjectMeta(name=self.secret_name, namespace=view.namespace, owner_references=[owned_by(JOBS, view.job)])
        data = {CONFIG: _encoded(self.host_config())}
        if self.private:
            data |= _files(self.private, self.public)
        yield Resource(
            SECRETS,
            core.Secret(metadata=meta, data=data, type="Opaque"),
            what=f"plug-in {self.name}",
            first_data=None if self.private else generate,
        )

    def host_config(self) -> str:
        """The client configuration: every pod under its host name, and no questions about host keys."""
        lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
        for task in self.view.tasks:
            for address in task.hosts():
                host = address.partition(".")[0]
                lines += [f"Host {host}", f"  HostName {address}", f"  Port {self.port}"]
        return "\n".join(lines) + "\n"


def generate() -> dict[str, str]:
    """A new key pair as Secret data. Takes a tenth of a second of processor time."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return _files(private.decode(), _public_of(private.decode()))


def _public_of(private: str) -> str:
    """The OpenSSH line of a private key. Raises PluginError when the text is no key."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    text = private.encode()
    load = serialization.load_ssh_private_key if b"OPENSSH PRIVATE KEY" in text else serialization.load_pem_private_key
    try:
        public = load(text, password=None).public_key()
        line = public.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise PluginError(
            "plug-in ssh: --ssh-private-key is no private key; give an unencrypted key in PEM form."
        ) from error
    return line.decode() + "\n"


def _files(private: str, public: str) -> dict[str, str]:
    return {PRIVATE: _encoded(private), PUBLIC: _encoded(public), AUTHORIZED: _encoded(public)}


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# Plug-ins ``svc`` and ``env``: pods of a job find each other by name, and learn their numbers.

# Plug-in ``env``: each pod learns its number within its task.

# The first is Volcano's older name of the same value.
VARIABLES = ("VK_TASK_INDEX", "VC_TASK_INDEX")


class EnvPlugin(JobPlugin):
    """Sets ``VC_TASK_INDEX`` and ``VK_TASK_INDEX``; no arguments."""

    name = "env"

    def prepare(self, pod: core.Pod, task: TaskView, index: int) -> None:
        """Set the variables in all containers and init containers."""
        for container in containers(pod):
            for variable in VARIABLES:
                set_env(container, core.EnvVar(name=variable, value=str(index)))


# Plug-in ``svc``: pods of a job find each other by name.

MOUNT_PATH = "/etc/volcano"
_SVC_FLAGS = {"publish-not-ready-addresses": "false", "disable-network-policy": "false", "inject-hosts-env": "true"}


class SvcPlugin(JobPlugin):
    """Gives the job a headless Service, and its pods host names and lists of all hosts.

    Arguments: ``--publish-not-ready-addresses`` (false), ``--inject-hosts-env`` (true), ``--disable-network-policy``
    (false): without it a NetworkPolicy lets only pods of the job reach pods of the job.

    The ConfigMap ``<job>-svc`` holds, per task with ``-`` written as ``_``: ``<task>.host``, one host per line;
    ``VC_<TASK>_HOSTS``, the hosts joined by commas; ``VC_<TASK>_NUM``, their number. A list of hosts that is too long
    for an environment variable is in the ConfigMap alone: with it no container would start.
    """

    name = "svc"
    flags = _SVC_FLAGS

    def read(self, arguments: Sequence[str]) -> None:
        """Take the flags."""
        flags = read_flags(arguments, _SVC_FLAGS)
        self.publish = flag_bool(self.name, flags, "publish-not-ready-addresses")
        self.inject = flag_bool(self.name, flags, "inject-hosts-env")
        self.isolate = not flag_bool(self.name, flags, "disable-network-policy")

    @property
    def config_map_name(self) -> str:
        """``<job>-svc``."""
        return f"{self.view.name}-svc"

    def prepare(self, pod: core.Pod, task: TaskView, index: int) -> None:
        """Set host name and subdomain, mount the hosts files, and refer to the lists by environment variables."""
        spec = pod.spec
        spec.hostname = spec.hostname or pod.metadata.name
        spec.subdomain = spec.subdomain or self.view.name
        volume = self.config_map_name
        spec.volumes = [
            *(spec.volumes or ()),
            core.Volume(name=volume, config_map=core.ConfigMapVolumeSource(name=volume)),
        ]
        for container in containers(pod):
            mounts = container.volume_mounts or []
            container.volume_mounts = [*mounts, core.VolumeMount(name=volume, mount_path=MOUNT_PATH)]
            if self.inject:
                for variable in self._variables():
                    set_env(container, variable)

    def resources(self) -> Iterable[Resource]:
        """The hosts' ConfigMap, the headless Service, and the NetworkPolicy."""
        view = self.view
        members = {JOB_NAME: view.name, JOB_NAMESPACE: view.namespace}
        what = f"plug-in {self.name}"
        yield Resource(
            CONFIG_MAPS, core.ConfigMap(metadata=self._meta(self.config_map_name), data=self.hosts_data()), what=what
        )
        yield Resource(
            SERVICES,
            core.Service(
                metadata=self._meta(view.name),
                spec=core.ServiceSpec(
                    cluster_ip="None", selector=members, publish_not_ready_addresses=self.publish or None
                ),
            ),
            what=what,
        )
        if self.isolate:
            pods = LabelSelector(match_labels=members)
            spec = core.NetworkPolicySpec(
                pod_selector=pods,
                ingress=[core.NetworkPolicyIngressRule(from_=[core.NetworkPolicyPeer(pod_selector=pods)])],
                policy_types=["Ingress"],
            )
            policy = core.NetworkPolicy(metadata=self._meta(view.name), spec=spec)
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

    def _variables(self) -> Iterable[core.EnvVar]:
        for task in self.view.tasks:
            names = [f"{_variable(task)}_HOSTS", f"{_variable(task)}_NUM"]
            for name in names[1:] if task.name in self._too_long else names:
                reference = core.ConfigMapKeySelector(name=self.config_map_name, key=name)
                yield core.EnvVar(name=name, value_from=core.EnvVarSource(config_map_key_ref=reference))

    def _meta(self, name: str) -> ObjectMeta:
        view = self.view
        return ObjectMeta(name=name, namespace=view.namespace, owner_references=[owned_by(JOBS, view.job)])


def _variable(task: TaskView) -> str:
    return f"VC_{task.name.replace('-', '_').upper()}"
