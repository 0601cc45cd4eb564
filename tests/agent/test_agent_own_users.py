"""Pods that run as users of their own, and what they try against the control plane and each other."""

from __future__ import annotations

import base64
import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_node import Node, manifest

from support.memory import MemoryClient
from unisono.agent.processes.users import FIRST_UID, UserBook
from unisono.api.base import ObjectMeta
from unisono.api.core import Namespace, Pod, Secret
from unisono.api.kinds import NAMESPACES, SECRETS
from unisono.errors import AgentError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give pods users of their own")

PRIVILEGED = {"pod-security.kubernetes.io/enforce": "privileged"}


@pytest.fixture
async def users(tmp_path: Path) -> AsyncIterator[Node]:
    """An agent that gives every namespace a user, with the namespaces ``default``, ``other`` and ``trusted``."""
    client = MemoryClient()
    for name, labels in (("default", None), ("other", None), ("trusted", PRIVILEGED)):
        client.put(NAMESPACES, Namespace(metadata=ObjectMeta(name=name, labels=labels)))
    node = Node(client, tmp_path / "agent", own_users=True)
    await node.start()
    yield node
    await node.stop()


async def outcome(node: Node, pod: Pod) -> str:
    """The log of a pod that succeeds."""
    node.run(pod)
    name, namespace = pod.metadata.name, pod.metadata.namespace or ""
    found = await node.until(name, lambda each: each.status.phase in ("Succeeded", "Failed"), namespace)
    log = await node.log(name, namespace=namespace)
    assert found.status.phase == "Succeeded", (found.status, log)
    return log


def shell(name: str, script: str, namespace: str = "default", **spec: Any) -> Pod:
    return manifest(name, ["sh", "-c", script], metadata={"namespace": namespace}, **spec)


@pytest.mark.parametrize(
    ("namespace", "security", "uid"),
    [
        ("default", None, FIRST_UID),
        ("trusted", None, 0),
        ("default", {"runAsUser": 54321}, 54321),
        ("default", {"runAsNonRoot": True}, FIRST_UID),
        ("trusted", {"runAsUser": 0}, 0),
    ],
)
async def test_as_whom_pods_run(users: Node, namespace: str, security: object, uid: int) -> None:
    log = await outcome(users, shell("p", "id -u; id -un; echo ~; pwd", namespace, securityContext=security))
    assert log.splitlines()[0] == str(uid)
    if uid:
        assert log.splitlines()[1:3] == ["unisono-pod", "/home/pod"]


async def test_namespaces_have_different_users_and_pods_of_one_share_theirs(users: Node) -> None:
    found = [await outcome(users, shell(f"p{i}", "id -u", ns)) for i, ns in enumerate(("default", "other", "default"))]
    assert found[0] == found[2] != found[1]


@pytest.mark.parametrize(
    ("security", "message"),
    [
        ({"runAsUser": 0}, "asks for user 0, which is root on this machine"),
        ({"runAsUser": 1}, "asks for user 1, which is daemon"),
        ({"runAsGroup": 0}, "asks for group 0"),
        ({"supplementalGroups": [42]}, "asks for group 42, which is shadow"),
        ({"fsGroup": 6}, "asks for group 6, which is disk"),
        ({"runAsUser": FIRST_UID + 77}, "which belongs to another namespace"),
    ],
)
async def test_accounts_of_the_machine_are_refused(users: Node, security: object, message: str) -> None:
    users.run(shell("p", "true", securityContext=security))
    pod = await users.phase("p", "Failed")
    assert message in (pod.status.message or "")
    assert "pod-security.kubernetes.io/enforce=privileged" in (pod.status.message or "")


async def test_volumes_logs_home_and_tmp_work(users: Node) -> None:
    secret = Secret(metadata=ObjectMeta(name="s", namespace="default"), data={"key": "c2VjcmV0"})
    users.client.put(SECRETS, secret)
    users.config_map("c", {"f": "text"})
    script = """set -e
    echo a > /data/x/file; echo b > /sub/file; cat /conf/f /keys/key; touch "$HOME/h" /tmp/unisono-test-$$
    rm /tmp/unisono-test-$$; echo out > /dev/stdout; echo said > /dev/termination-log; stat -c %a /keys/key
    """
    mounts = [("d", "/data/x", None), ("d", "/sub", "deep/er"), ("c", "/conf", None), ("s", "/keys", None)]
    pod = shell(
        "p",
        script,
        container={"volumeMounts": [{"name": n, "mountPath": p} | ({"subPath": s} if s else {}) for n, p, s in mounts]},
        volumes=[
            {"name": "d", "emptyDir": {}},
            {"name": "c", "configMap": {"name": "c"}},
            {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}},
        ],
    )
    assert (await outcome(users, pod)).splitlines() == ["textsecretout", "400"]
    found = users.pod("p")
    assert found is not None
    assert found.status.container_statuses[0].state.terminated.message == "said\n"


@pytest.mark.skipif(shutil.which("sshd", path="/usr/sbin:/usr/bin") is None, reason="sshd is not installed")
async def test_an_ssh_server_runs_as_the_user_of_a_namespace_with_the_keys_that_are_mounted_for_root(
    users: Node,
) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", users.data_dir / "key"], check=True)
    keys = {"id_ed25519": (users.data_dir / "key").read_bytes(), "config": b"StrictHostKeyChecking no\n"}
    keys["authorized_keys"] = (users.data_dir / "key.pub").read_bytes()
    secret = Secret(
        metadata=ObjectMeta(name="keys", namespace="default"),
        data={name: base64.b64encode(value).decode() for name, value in keys.items()},
    )
    users.client.put(SECRETS, secret)
    script = """/usr/sbin/sshd -De -p 2222 -o ListenAddress=$(hostname -i) & trap "kill $!" EXIT
    for i in $(seq 100); do ssh -q -p 2222 $(hostname) echo logged in as '$USER' && exit; sleep 0.1; done; exit 1"""
    pod = shell(
        "p",
        script,
        container={"volumeMounts": [{"name": "keys", "mountPath": "/root/.ssh"}]},
        volumes=[{"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o600}}],
    )
    assert "logged in as unisono-pod\n" in await outcome(users, pod)


async def test_fs_group(users: Node) -> None:
    pod = shell(
        "p",
        "touch /d/f; stat -c %g /d /d/f; id -G",
        container={"volumeMounts": [{"name": "d", "mountPath": "/d"}]},
        volumes=[{"name": "d", "emptyDir": {}}],
        securityContext={"fsGroup": 54321},
    )
    assert (await outcome(users, pod)).splitlines() == ["54321", "54321", f"{FIRST_UID} 54321"]


# What a container may not do, as a shell's conditions: each that succeeds is printed.
HOSTILE = r"""
try() { if eval "$1" >/dev/null 2>&1; then echo "possible: $1"; fi; }
try 'ls <data>'
try 'cat <data>/addresses.json'
try 'cat <victim>/runs/main/0/log'
try 'ls <victim>'
try 'cat <victim>/volumes/d/private'
try 'cat /work/../<data>/users.json'
try 'cd <victim>/volumes/d && cat private'
try 'cat /proc/1/environ | grep -a .'
try 'ls /proc/1/root/'
try 'ls -l /proc/1/fd/ | grep -v total'
try 'cat /proc/<agent>/environ | grep -a UNISONO'
try 'kill -0 <agent>'
try 'python3 -c "import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(16, <agent>, 0, 0) != 0)"'
try 'python3 -c "import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(16, <shim>, 0, 0) != 0)"'
try 'kill -0 <shim>'
try 'kill -0 $(grep -lsa hunter2 /proc/[0-9]*/environ | cut -d/ -f3)'
try 'for each in /proc/[0-9]*; do grep -qa hunter2 $each/environ && exit; done; false'
try 'ls /proc/[0-9]*/root<data>'
try 'kill -0 -1 && false || kill -9 <shim>'
try 'cat /etc/shadow'
try 'echo x >> /etc/hosts'
try 'echo x >> /etc/passwd'
try 'grep -q CapEff.*[1-9a-f] /proc/self/status'
try 'grep -q "NoNewPrivs:.0" /proc/self/status'
try 'mkdir <cgroup>/mine'
try 'mount -t tmpfs none /mnt'
try 'python3 -c "import os; os.setuid(0)"'
try 'ls /proc/self/fd | grep -vE "^[0-3]$"'
env | grep -iE 'secret|token|kubeconfig|aws|unisono_'
echo done
"""


@pytest.mark.parametrize("security", [None, {"runAsUser": 54321}, {"runAsUser": 54321, "runAsGroup": 54322}])
async def test_a_hostile_pod_reaches_nothing(users: Node, monkeypatch: pytest.MonkeyPatch, security: object) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "KUBECONFIG", "UNISONO_DATA_DIR", "GITHUB_TOKEN"):
        monkeypatch.setenv(name, "leaked-secret")
    victim = shell(
        "victim",
        "echo confidential | tee /d/private; exec sleep 1000",
        container={
            "env": [{"name": "PASSWORD", "value": "hunter2"}],
            "volumeMounts": [{"name": "d", "mountPath": "/d"}],
        },
        volumes=[{"name": "d", "emptyDir": {}}],
        # In the namespace "other", too, the thief may be this very user.
        securityContext=security,
    )
    users.run(victim)
    uid = (await users.until("victim", lambda pod: pod.status.phase == "Running")).metadata.uid or ""
    run = users.data_dir / "pods" / uid
    await users.until("victim", lambda _: (run / "runs/main/0/started").exists())
    facts = {
        "data": users.data_dir,
        "victim": run,
        "agent": os.getpid(),
        "shim": (run / "runs/main/0/started").read_text().split()[0].partition("=")[2],
        "cgroup": "/sys/fs/cgroup/unified",
    }
    script = HOSTILE
    for name, value in facts.items():
        script = script.replace(f"<{name}>", str(value))
    for namespace in ("default", "other"):
        log = await outcome(users, shell(f"thief-{namespace}", script, namespace, securityContext=security))
        assert log.splitlines() == ["done"], namespace


@pytest.mark.parametrize("path", ["", "/volumes/d", "/runs/main/0/log"])
async def test_a_host_path_is_walked_with_the_rights_of_the_pod(users: Node, path: str) -> None:
    users.run(
        shell(
            "victim",
            "sleep 1000",
            container={"volumeMounts": [{"name": "d", "mountPath": "/d"}]},
            volumes=[{"name": "d", "emptyDir": {}}],
        )
    )
    victim = await users.until("victim", lambda pod: pod.status.phase == "Running")
    source = f"{users.data_dir}/pods/{victim.metadata.uid}{path}"
    await users.until("victim", lambda _: Path(source).exists())
    thief = shell(
        "thief",
        "ls /x",
        container={"volumeMounts": [{"name": "x", "mountPath": "/x"}]},
        volumes=[{"name": "x", "hostPath": {"path": source}}],
    )
    users.run(thief)
    pod = await users.phase("thief", "Failed")
    assert pod.status.container_statuses[0].state.terminated.reason == "StartError"
    assert "Permission denied" in pod.status.container_statuses[0].state.terminated.message


@pytest.mark.parametrize("kind", ["DirectoryOrCreate", "FileOrCreate"])
async def test_a_host_path_is_made_with_the_rights_of_the_pod(users: Node, kind: str) -> None:
    place = Path(tempfile.mkdtemp(prefix="unisono-open-"))
    try:
        place.chmod(0o755)
        volume = {"name": "x", "hostPath": {"path": str(place / "new"), "type": kind}}
        mount = {"volumeMounts": [{"name": "x", "mountPath": "/x"}]}
        users.run(shell("p", "true", container=mount, volumes=[volume]))
        pod = await users.phase("p", "Failed")
        assert "cannot make the path" in (pod.status.message or "")
        assert not (place / "new").exists()
        place.chmod(0o777)
        await outcome(users, shell("q", "true", container=mount, volumes=[volume]))
        assert (place / "new").stat().st_uid == FIRST_UID
    finally:
        shutil.rmtree(place)


@pytest.mark.parametrize("sub_path", ["link", "link/pods", "up/../link"])
async def test_a_sub_path_does_not_leave_its_volume(users: Node, sub_path: str) -> None:
    mount = {"volumeMounts": [{"name": "d", "mountPath": "/d"}]}
    escape = {"volumeMounts": [{"name": "d", "mountPath": "/x", "subPath": sub_path}]}
    pod = manifest(
        "p",
        ["sh", "-c", "ls -a /x; echo reached"],
        container=escape,
        initContainers=[
            {"name": "first", "command": ["ln", "-s", str(users.data_dir), "/d/link"], **mount},
        ],
        volumes=[{"name": "d", "emptyDir": {}}],
    )
    users.run(pod)
    await users.phase("p", "Failed")
    found = users.pod("p")
    assert found is not None
    assert "leads out of its volume" in f"{found.status.message} {found.status.container_statuses}"


async def test_a_sub_path_may_lead_through_a_link_within_its_volume(users: Node) -> None:
    pod = manifest(
        "p",
        ["sh", "-c", "cat /x/file"],
        container={"volumeMounts": [{"name": "d", "mountPath": "/x", "subPath": "latest"}]},
        initContainers=[
            {
                "name": "first",
                "command": ["sh", "-c", "mkdir /d/run-7; echo seven > /d/run-7/file; ln -s run-7 /d/latest"],
                "volumeMounts": [{"name": "d", "mountPath": "/d"}],
            },
        ],
        volumes=[{"name": "d", "emptyDir": {}}],
    )
    assert await outcome(users, pod) == "seven\n"


async def test_a_command_that_enters_has_the_same_user(users: Node) -> None:
    probe = {"exec": {"command": ["sh", "-c", "id -u > $HOME/who"]}, "periodSeconds": 1}
    pod = shell("p", "until test -s $HOME/who; do sleep 0.1; done; cat $HOME/who", container={"readinessProbe": probe})
    assert (await outcome(users, pod)).split() == [str(FIRST_UID)]


async def test_a_working_directory_that_only_root_may_enter(users: Node) -> None:
    closed = users.data_dir / "closed"
    closed.mkdir(mode=0o700)
    users.run(shell("p", "ls", container={"workingDir": str(closed)}))
    pod = await users.phase("p", "Failed")
    message = pod.status.container_statuses[0].state.terminated.message or ""
    assert "cannot be entered: Permission denied" in message
    assert "annotate the namespace with unisono.io/readable-directories" in message


async def test_a_working_directory_of_a_checkout_with_umask_077(users: Node) -> None:
    closed = Path(tempfile.mkdtemp(prefix="unisono-closed-"))
    try:
        users.run(shell("p", "ls", container={"workingDir": str(closed)}))
        pod = await users.phase("p", "Failed")
        message = pod.status.container_statuses[0].state.terminated.message or ""
        assert f"run 'chmod -R o+rX {closed}'" in message
        assert "readable-directories" not in message
    finally:
        closed.rmdir()


async def test_more_folders_than_can_be_shown(users: Node) -> None:
    folders = ":".join(f"/root/{number}" for number in range(65))
    space = Namespace(metadata=ObjectMeta(name="default", annotations={"unisono.io/readable-directories": folders}))
    users.client.put(NAMESPACES, space)
    users.run(shell("p", "true"))
    message = (await users.phase("p", "Failed")).status.message or ""
    assert "names 65 folders in unisono.io/readable-directories: at most 64" in message


@pytest.mark.parametrize("namespace", ["default", "other"])
async def test_an_administrator_shows_a_folder_of_roots_to_the_pods_of_one_namespace(
    users: Node, namespace: str
) -> None:
    closed = Path(tempfile.mkdtemp(prefix="unisono-closed-"))
    try:
        (closed / "work").mkdir()
        (closed / "work" / "data").write_text("data")
        (closed / "secret").write_text("secret")
        annotations = {"unisono.io/readable-directories": f"relative:{closed}/gone:{closed}/work"}
        users.client.put(NAMESPACES, Namespace(metadata=ObjectMeta(name="default", annotations=annotations)))
        script = f"cd {closed} 2>/dev/null && ls && cat work/data; touch {closed}/work/x 2>/dev/null || echo no"
        log = await outcome(users, shell("p", script, namespace))
        assert log == ("work\ndatano\n" if namespace == "default" else "no\n")
    finally:
        shutil.rmtree(closed)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of root's that only root may enter."""
    made = Path(tempfile.mkdtemp(prefix="unisono-own-"))
    yield made
    shutil.rmtree(made)


def allow_writing(node: Node, folders: str) -> None:
    annotations = {"unisono.io/writable-directories": folders}
    node.client.put(NAMESPACES, Namespace(metadata=ObjectMeta(name="default", annotations=annotations)))


@pytest.mark.parametrize("namespace", ["default", "other"])
@pytest.mark.parametrize("owner", [0, 12345])
async def test_an_administrator_lets_pods_of_one_namespace_write_as_the_owner_of_a_folder(
    users: Node, folder: Path, namespace: str, owner: int
) -> None:
    work = folder / "work"
    work.mkdir()
    (work / "old").write_text("1")
    (folder / "secret").write_text("secret")
    for each in (work, work / "old"):
        os.chown(each, owner, owner)
    allow_writing(users, f"{folder}/gone:{work}")
    script = f"ls {folder}; cd {work} && echo 2 >> old && mkdir sub && echo x > sub/new && id -u || echo no"
    log = await outcome(users, shell("p", script, namespace, container={"workingDir": "/"}))
    if namespace == "other":
        assert "no" in log.split()
        return
    assert log.split() == ["work", str(FIRST_UID)]
    assert [(work / name).stat().st_uid for name in ("old", "sub", "sub/new")] == [owner] * 3
    assert (work / "old").read_text() == "12\n"


async def test_no_link_leads_out_of_a_writable_folder(users: Node, folder: Path) -> None:
    (folder / "secret").mkdir()
    (folder / "link").symlink_to(folder / "secret")
    allow_writing(users, f"{folder}/link")
    assert await outcome(users, shell("p", f"touch {folder}/secret/x 2>/dev/null || echo no")) == "no\n"


RACE = """
import os, sys
from unisono.agent.shim.kernel import attach, mapped, unshare
from unisono.agent.shim.mounts import MS_REC, MS_SLAVE, mount
folder = sys.argv[1]
unshare(0x20000)
mount(None, "/", None, MS_SLAVE | MS_REC)
tree = mapped(f"{folder}/a/x/b", 70000, 70000)
os.rename(f"{folder}/a/x", f"{folder}/a/y")
os.symlink(f"{folder}/other", f"{folder}/a/x")
try:
    attach(tree, f"{folder}/a/x/b")
except OSError as error:
    print(error.strerror)
print(os.listdir(f"{folder}/other/b"))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_link_that_comes_while_a_folder_is_mounted_does_not_lead_it_elsewhere(folder: Path) -> None:
    for name in ("a/x/b", "other/b"):
        (folder / name).mkdir(parents=True)
    (folder / "other/b/system").touch()
    done = subprocess.run([sys.executable, "-c", RACE, str(folder)], capture_output=True, text=True, check=True)
    assert done.stdout == f"{os.strerror(errno.ELOOP)}\n['system']\n"


async def test_the_control_planes_own_files_are_never_writable(users: Node) -> None:
    allow_writing(users, str(users.data_dir))
    users.run(shell("p", "true"))
    message = (await users.phase("p", "Failed")).status.message or ""
    assert "where the control plane keeps its own files" in message


async def test_a_pod_cannot_take_the_address_of_another(node: Node) -> None:
    if node.agent is None or node.agent._host is None or not node.agent._host.isolation.own_ports:
        pytest.skip("pods share the ports of this machine")
    node.run(manifest("victim", ["sleep", "1000"]))
    victim = await node.until("victim", lambda pod: pod.status.phase == "Running")
    program = """
import socket, sys
def bind(kind, ip):
    try:
        socket.socket(socket.AF_INET, kind).bind((ip, 0 if kind == socket.SOCK_DGRAM else 18765))
        return "yes"
    except PermissionError:
        return "no"
own, other = socket.gethostbyname(socket.gethostname()), sys.argv[1]
second = other.replace("127.", "", 1).split(".")
second = f"127.{int(second[0]) + 64}.{second[1]}.{second[2]}"
for ip in (own, "127.0.0.1", "0.0.0.0", other, second):
    print(bind(socket.SOCK_STREAM, ip), bind(socket.SOCK_DGRAM, ip))
"""
    log = await outcome(node, manifest("thief", [sys.executable, "-c", program, str(victim.status.pod_ip)]))
    assert log.splitlines() == ["yes yes"] * 3 + ["no no"] * 2


def test_users_are_kept_and_given_out_again_last(tmp_path: Path) -> None:
    present = {"a", "b", "c"}
    book = UserBook(tmp_path / "users.json", present.__contains__, size=3)
    given = [book.user(name) for name in ("a", "b", "c", "a")]
    assert given == [FIRST_UID, FIRST_UID + 1, FIRST_UID + 2, FIRST_UID]
    assert UserBook(tmp_path / "users.json", present.__contains__).user("b") == FIRST_UID + 1
    with pytest.raises(AgentError, match="All 3 users"):
        book.user("d")
    present.remove("b")
    assert book.user("d") == FIRST_UID + 1


async def test_the_interpreter_runs_although_it_lies_in_a_closed_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = Path(tempfile.mkdtemp(prefix="unisono-closed-"))
    (closed / "pkg").mkdir()
    (closed / "pkg" / "unisono_probe.py").write_text("print('found')\n")
    (closed / "secret").write_text("secret")
    monkeypatch.setattr(sys, "path", [*sys.path, str(closed / "pkg")])
    client = MemoryClient()
    client.put(NAMESPACES, Namespace(metadata=ObjectMeta(name="default")))
    node = Node(client, tmp_path / "agent", own_users=True)
    await node.start()
    try:
        script = f"cd {closed}/pkg && python unisono_probe.py; ls {closed}; touch {closed}/pkg/x 2>/dev/null || echo no"
        assert await outcome(node, shell("p", script)) == "found\npkg\nno\n"
    finally:
        await node.stop()
        shutil.rmtree(closed)


@pytest.mark.parametrize("closed", ["", "venv", "venv/bin"])
async def test_a_python_that_pods_may_not_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    root = Path(tempfile.mkdtemp(prefix="unisono-closed-"))
    (root / "venv" / "bin").mkdir(parents=True)
    (root / "venv" / "bin" / "python").symlink_to(sys.executable)
    (root / closed).chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(root / "venv" / "bin" / "python"))
    monkeypatch.setattr(sys, "prefix", str(root / "venv"))
    client = MemoryClient()
    client.put(NAMESPACES, Namespace(metadata=ObjectMeta(name="default")))
    node = Node(client, tmp_path / "agent", own_users=True)
    await node.start()
    try:
        node.run(shell("p", "true"))
        await node.phase("p", "Succeeded")
        events = node.events("PythonNotReadable")
        # A closed folder above is no problem: what pods need of it is shown.
        assert sorted(event.involved_object.kind or "" for event in events) == (["Node", "Pod"] if closed else [])
        assert all(f"chmod -R o+rX {root / closed}'" in (event.message or "") for event in events)
    finally:
        await node.stop()
        shutil.rmtree(root)
