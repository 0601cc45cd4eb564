"""Attacks by pods on the machine that runs them: files, users, paths, ends."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks.tenant.table import attack
from benchmarks.tenant.world import MARK, VICTIM, Body, World, shell

# Looks for the bystander's Secret, the control plane's keys, and what only root may read.
_SEARCH = (
    "id; for f in /proc/[0-9]*/environ /proc/[0-9]*/root/secret/key /proc/[0-9]*/root/data/file; do cat $f; done;"
    " grep -rs -m1 {mark} {data} /dev/shm; cat {data}/kubeconfig {data}/pki/* {data}/state.db; true"
)


def search(w: World) -> str:
    """A script that prints all it can find of others."""
    return _SEARCH.format(mark=MARK, data=w.folder / "data")


def judge(w: World, phase: str, log: str, what: str) -> None:
    """Nothing of the bystander or of the control plane may stand in the log."""
    if MARK in log or "PRIVATE KEY" in log or "client-key-data" in log or "SQLite format" in log:
        w.fault(f"{what}: read what it must not ({phase})")


@attack("pods that ask to be root, or the bystander's user, and search the machine", machine=True)
async def users(w: World) -> None:
    theirs = await _user_of_keeper(w)
    contexts: dict[str, Body] = {
        "as it is": {},
        "root": {"runAsUser": 0},
        "group root": {"runAsGroup": 0},
        "groups": {"supplementalGroups": [0, theirs], "fsGroup": theirs},
        "theirs": {"runAsUser": theirs, "runAsGroup": theirs},
        "sysctls": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]},
    }
    for number, (what, context) in enumerate(contexts.items()):
        phase, log = await w.run(f"p{number}", search(w), securityContext=context)
        judge(w, phase, log, what)
        if "uid=0" in log:
            w.fault(f"{what}: a pod was root")
        if what == "theirs" and f"uid={theirs}(" in log:
            w.fault("a pod ran as the user of another namespace")
    for number, context in enumerate(
        ({"privileged": True}, {"capabilities": {"add": ["SYS_ADMIN"]}}, {"procMount": "Unmasked"}, {"runAsUser": 0})
    ):
        phase, log = await w.pod(f"c{number}", {"containers": [shell(search(w), securityContext=context)]})
        judge(w, phase, log, str(context))
        if "uid=0" in log:
            w.fault(f"{context}: a pod was root")


async def _user_of_keeper(w: World) -> int:
    for place, line in _processes():
        if f"echo {MARK}".encode() in line and (uid := place.stat().st_uid):
            return uid
    return 1


def _processes() -> Iterator[tuple[Path, bytes]]:
    """Folder in ``/proc`` and command line of every process of the machine."""
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                yield place, (place / "cmdline").read_bytes()
            except OSError:
                continue


@attack("hostPath, hostPID, host namespaces and devices", machine=True)
async def host(w: World) -> None:
    mount = [{"name": "h", "mountPath": "/h"}]
    for number, path in enumerate((str(w.folder / "data"), "/", "/root", "/proc", "/etc/../root")):
        volume = [{"name": "h", "hostPath": {"path": path}}]
        script = f"cat /h/kubeconfig /h/pki/* /h/data/kubeconfig /h{w.folder}/data/kubeconfig; {search(w)}"
        phase, log = await w.pod(f"p{number}", {"containers": [shell(script, volumeMounts=mount)], "volumes": volume})
        judge(w, phase, log, f"hostPath {path}")
    for number, more in enumerate(({"hostPID": True}, {"hostIPC": True}, {"hostNetwork": True})):
        phase, log = await w.run(f"n{number}", search(w), **more)
        judge(w, phase, log, str(more))


@attack("volumes, claims and subPaths that lead out by .. and by symbolic links", machine=True)
async def links(w: World) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    for name in ("data", "..", "a..b"):
        await w.post("persistentvolumeclaims", {"metadata": {"name": name}, "spec": claim})
    volume = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    data = w.folder / "data"
    targets = {"root": "/root", "data": str(data), "etc": "/etc", "all": "/"}
    script = "; ".join(f"ln -s {target} /v/{name}" for name, target in targets.items())
    first = shell(script, volumeMounts=[{"name": "v", "mountPath": "/v"}])
    before = {path: Path(path).stat().st_uid for path in ("/root", "/etc", str(data))}
    await w.pod("links", {"containers": [first], "volumes": volume})
    for number, sub in enumerate((*targets, "data/pki", "../..", "all/root", "new/../../..")):
        script = f"cat /s/* /s/pki/* /s/kubeconfig; touch /s/owned; {search(w)}"
        container = shell(script, volumeMounts=[{"name": "v", "mountPath": "/s", "subPath": sub}])
        phase, log = await w.pod(f"p{number}", {"containers": [container], "volumes": volume}, 10)
        judge(w, phase, log, f"subPath {sub}")
        expression = {"name": "v", "mountPath": "/s", "subPathExpr": "$(WHERE)"}
        container = shell(script, env=[{"name": "WHERE", "value": f"/../{sub}"}], volumeMounts=[expression])
        phase, log = await w.pod(f"e{number}", {"containers": [container], "volumes": volume}, 10)
        judge(w, phase, log, f"subPathExpr {sub}")
    for path, uid in before.items():
        if Path(path).stat().st_uid != uid or Path(path, "owned").exists():
            w.fault(f"{path} was changed")
    items = [{"key": "k", "path": path} for path in ("../../../../tmp/unisono-item", "/tmp/unisono-item")]
    await w.post("configmaps", {"metadata": {"name": "c"}, "data": {"k": "v"}})
    for number, item in enumerate(items):
        maps = [{"name": "m", "configMap": {"name": "c", "items": [item]}}]
        container = shell("ls -R /m", volumeMounts=[{"name": "m", "mountPath": "/m"}])
        phase, _ = await w.pod(f"i{number}", {"containers": [container], "volumes": maps}, 10)
        if Path("/tmp/unisono-item").exists():
            w.fault("a ConfigMap's item was written outside of its volume")


@attack("links in place of the last message, of logs and of what the agent removes", machine=True)
async def last_words(w: World) -> None:
    data = w.folder / "data"
    for number, target in enumerate((f"{data}/kubeconfig", "/etc/shadow", f"{data}/pki/ca.key", "/dev/zero", "/")):
        where = "/v/message"
        script = f"ln -sf {target} {where}; ln -sf {target} /dev/termination-log; exit 1"
        mounts = [{"name": "v", "mountPath": "/v"}]
        container = shell(script, terminationMessagePath=where, volumeMounts=mounts)
        await w.pod(f"p{number}", {"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]})
        _, answer = await w.ask("GET", w.path("pods", f"p{number}"))
        status = json.dumps(json.loads(answer).get("status", {}))
        judge(w, "", status, f"last message from {target}")
        if "root:" in status:
            w.fault(f"a last message from {target}")
    fifo = shell("rm -f /v/message; mkfifo /v/message; exit 1", terminationMessagePath="/v/message")
    fifo["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    phase, _ = await w.pod("fifo", {"containers": [fifo], "volumes": [{"name": "v", "emptyDir": {}}]})
    if phase != "Failed":
        w.fault(f"a named pipe as last message: the pod is {phase}")


@attack("pods that ignore all signals, fork without end and leave daemons behind", machine=True)
async def stubborn(w: World) -> None:
    spec: Body = {"nodeSelector": {"kubernetes.io/hostname": w.machine}, "terminationGracePeriodSeconds": 1}
    scripts = {
        "trap": "trap '' TERM INT HUP; while :; do sleep 1; done",
        "fork": "f() { f | f & }; f; sleep 60",
        "daemon": "setsid sh -c 'trap \"\" TERM; sleep 7431' & setsid sh -c 'setsid sleep 7431 &' & sleep 1",
    }
    for name, script in scripts.items():
        limits = {"resources": {"limits": {"memory": "64Mi", "cpu": "100m"}}}
        await w.post("pods", {"metadata": {"name": name}, "spec": {**spec, "containers": [shell(script, **limits)]}})
    await asyncio.sleep(5)
    for name in scripts:
        await w.ask("DELETE", w.path("pods", name))
    await asyncio.sleep(6)
    if any(line == b"sleep\x007431\x00" for _, line in _processes()):
        w.fault("a process outlived its pod")


@attack("probes and hooks that call the control plane, and run commands", machine=True)
async def probes(w: World) -> None:
    port = int(w.admin.config.server.rpartition(":")[2])
    get = {"httpGet": {"host": "127.0.0.1", "port": port, "scheme": "HTTPS", "path": "/api/v1/secrets"}}
    socket = {"exec": {"command": ["sh", "-c", f"id > /v/id; cat {w.folder}/data/kubeconfig >> /v/id"]}}
    mounts = [{"name": "v", "mountPath": "/v"}]
    for number, action in enumerate((get, socket)):
        container = shell("sleep 3; cat /v/id", volumeMounts=mounts, livenessProbe={**action, "periodSeconds": 1})
        container["lifecycle"] = {"postStart": action}
        phase, log = await w.pod(f"p{number}", {"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]})
        judge(w, phase, log, "a probe")
        if "uid=0" in log:
            w.fault("a probe was root")


@attack("names of others: hosts, subdomains, Services of the bystander's names", machine=True)
async def names(w: World) -> None:
    spec: Body = {
        "nodeSelector": {"kubernetes.io/hostname": w.machine},
        "hostname": "keeper",
        "subdomain": VICTIM,
        "containers": [shell("sleep 60")],
        "terminationGracePeriodSeconds": 0,
        "hostAliases": [{"ip": "127.0.0.1", "hostnames": [f"keeper.{VICTIM}", "a b", "x\nevil"]}],
    }
    await w.post("pods", {"metadata": {"name": "keeper"}, "spec": spec})
    await w.post("services", {"metadata": {"name": "keeper"}, "spec": {"selector": {}, "ports": [{"port": 80}]}})
    await asyncio.sleep(3)
    _, answer = await w.ask("POST", w.path("pods", "keeper/exec?command=id&stdout=true", VICTIM))
    if MARK.encode() in answer:
        w.fault("a command ran in the bystander's pod")


@attack("a log of 2 GB, and 500,000 empty files", machine=True)
async def disk(w: World) -> None:
    script = "yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa | head -c 2000000000"
    await w.run("log", script, 40)
    kept = (Path(place, file) for place, _, files in os.walk(w.folder / "data") for file in files)
    size = sum(file.lstat().st_size for file in kept if "log" in file.name and file.name != "unisono.log")
    if size > 200_000_000:
        w.fault(f"logs take {size >> 20} MiB")
