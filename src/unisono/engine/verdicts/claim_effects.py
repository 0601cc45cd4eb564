"""What changes of claims for volumes and devices do to a snapshot."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from unisono.api.core import DeviceRequest
from unisono.cluster.status import TaskStatus
from unisono.engine import changes
from unisono.engine.plugins.predicates.volume_match import waits
from unisono.engine.verdicts.edit import Edit


def use_claim(change: changes.UseClaim, edit: Edit, job: str) -> None:
    """The pods name another claim, which exists."""
    namespace = job.partition("/")[0]
    part = "devices" if change.of == "ResourceClaim" else "volumes"
    renamed = {f"{namespace}/{change.name}": f"{namespace}/{change.instead}"}
    _with_claims(edit, job, part, renamed, f"claims {change}")


def create_claim(change: changes.CreateClaim, edit: Edit, job: str) -> None:
    """As if the new claim were bound to a volume that reaches every node: its class provisions one."""
    _with_claims(edit, job, "volumes", {f"{job.partition('/')[0]}/{change.name}": ""}, f"bound {change.name}")


def use_storage_class(change: changes.UseStorageClass, edit: Edit, job: str) -> None:
    """The claim names another class; where that binds at once, as if it had."""
    key = f"{job.partition('/')[0]}/{change.claim}"
    old = edit.origin.catalogue.volume_claims[key]
    spec = msgspec.structs.replace(old.spec, storage_class_name=change.storage_class, volume_name=None)
    claim = msgspec.structs.replace(old, spec=spec)
    if waits(claim, edit.origin.catalogue):
        edit.claim(claim)
    else:
        _with_claims(edit, job, "volumes", {key: ""}, f"bound {change.claim}")


def use_device_class(change: changes.UseDeviceClass, edit: Edit, job: str) -> None:
    """The claim asks for devices of another class, and with it those that the job's pods have from its template."""
    keys = {f"{job.partition('/')[0]}/{change.claim}"}
    for task in edit.job(job).tasks.values() if change.template else ():
        keys |= {key for key, template in task.pod_class.templates if template == change.template}
    claims = edit.origin.catalogue.device_claims
    for old in [claims[key] for key in sorted(keys & claims.keys())]:
        if old.status.allocation is not None:
            continue
        requests = [_of_class(request, change) for request in old.spec.devices.requests or ()]
        devices = msgspec.structs.replace(old.spec.devices, requests=requests)
        edit.claim(msgspec.structs.replace(old, spec=msgspec.structs.replace(old.spec, devices=devices)))


def _of_class(request: DeviceRequest, change: changes.UseDeviceClass) -> DeviceRequest:
    exactly, subs = request.exactly, request.first_available
    if exactly is not None and exactly.device_class_name == change.name:
        exactly = msgspec.structs.replace(exactly, device_class_name=change.instead)
    for at, one in enumerate(subs or ()):
        if one.device_class_name == change.name:
            changed = msgspec.structs.replace(one, device_class_name=change.instead)
            subs = [*(subs or ())[:at], changed, *(subs or ())[at + 1 :]]
    return msgspec.structs.replace(request, exactly=exactly, first_available=subs)


def _with_claims(edit: Edit, job: str, part: str, instead: Mapping[str, str], what: str) -> None:
    """Other claims in the pods that wait; an empty name takes a claim away."""
    tasks = edit.job(job).tasks.values()
    for old in [task for task in tasks if task.status is TaskStatus.PENDING]:
        task = edit.task(old.key)
        claims = tuple(filter(None, (instead.get(key, key) for key in getattr(old.pod_class, part))))
        task.pod_class = edit.pod_class(old.pod_class, what, **{part: claims})
        edit.put(task)
