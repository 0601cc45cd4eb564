"""Plug-in ``ssh``: pods of a job log in to each other without a password."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence

from unisono.api.base import ObjectMeta
from unisono.api.core import KeyToPath, Pod, Secret, SecretVolumeSource, Volume, VolumeMount
from unisono.api.kinds import JOBS, SECRETS
from unisono.controllers.job.plugins.base import JobPlugin, PluginError, containers, read_flags
from unisono.controllers.job.view import TaskView
from unisono.controllers.keys import whole_number
from unisono.controllers.owners import owned_by
from unisono.controllers.plan import Resource

DEFAULT_PATH = "/root/.ssh"
DEFAULT_PORT = 22
# Folder of the files within the volume; containers see it under the key path.
FOLDER = ".ssh"
PRIVATE, PUBLIC, AUTHORIZED, CONFIG = "id_rsa", "id_rsa.pub", "authorized_keys", "config"
KEY_BITS = 2048
_FLAGS = {
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
    flags = _FLAGS

    def read(self, arguments: Sequence[str]) -> None:
        """Take the flags. A port that is none counts as 22."""
        flags = read_flags(arguments, _FLAGS)
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

    def prepare(self, pod: Pod, task: TaskView, index: int) -> None:
        """Mount the files in every container and init container."""
        name = self.secret_name
        source = SecretVolumeSource(
            secret_name=name,
            items=[KeyToPath(key=key, path=f"{FOLDER}/{key}") for key in (PRIVATE, PUBLIC, AUTHORIZED, CONFIG)],
            default_mode=0o600 if self.path == DEFAULT_PATH else 0o644,
        )
        pod.spec.volumes = [*(pod.spec.volumes or ()), Volume(name=name, secret=source)]
        for container in containers(pod):
            mount = VolumeMount(name=name, mount_path=self.path, sub_path=FOLDER)
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
            Secret(metadata=meta, data=data, type="Opaque"),
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
