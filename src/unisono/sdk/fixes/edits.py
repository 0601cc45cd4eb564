"""What a verdict's change does to a manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unisono.api.resources import to_wire
from unisono.sdk.fixes import gang_sizes, pod_specs
from unisono.sdk.fixes.owners import Raw

Edit = Callable[[dict[str, Any]], None]


def other_storage_class(change: Mapping[str, Any]) -> Edit:
    """Of a claim: the storage class, and no volume of the old one."""

    def edit(body: Raw) -> None:
        body["spec"]["storageClassName"] = change["storage_class"]
        body["spec"].pop("volumeName", None)

    return edit


def other_device_class(change: Mapping[str, Any]) -> Edit:
    """Of a ResourceClaim or its template: the device class in place of the one that the change names."""

    def edit(body: Raw) -> None:
        spec = body["spec"].get("spec") or body["spec"]  # that of a template stands one deeper
        for request in ((spec.get("devices") or {}).get("requests")) or ():
            for one in (request.get("exactly") or {}, *(request.get("firstAvailable") or ())):
                if one.get("deviceClassName") == change["name"]:
                    one["deviceClassName"] = change["instead"]

    return edit


def edit_of(change: Mapping[str, Any]) -> Edit | None:
    """What a change does to the manifest of the job; None for changes of other objects."""
    match change["kind"]:
        case "LowerMinAvailable":
            return lambda body: gang_sizes.lower(body, change["to"])
        case "SetMinResources":
            return lambda body: gang_sizes.set_min_resources(body, to_wire(change["amounts"]))
        case "UseRole":
            return lambda body: gang_sizes.use_role(body, change["name"], change["instead"])
        case "CreatePods":
            return lambda body: gang_sizes.grow(body, change["count"])
        case "SetField":
            return lambda body: pod_specs.set_field(body["spec"], change["field"].partition(".")[2], change["value"])
        case "AllowTier":
            return lambda body: gang_sizes.allow_tier(body, change["tier"])
        case "UseQueue":
            return lambda body: gang_sizes.use_queue(body, change["queue"])
        case "UsePriority":
            return lambda body: gang_sizes.use_priority(body, change["priority_class"])
        case "AddAnnotation":
            return lambda body: pod_specs.annotate(body, change["key"], change["value"])
    edit = _pod_edit(change)
    return None if edit is None else pod_specs.each_pod(edit)


def all_of(changes: Sequence[dict[str, Any]]) -> Edit:
    """One edit that makes all of the changes."""
    edits = [edit for one in changes if (edit := edit_of(one)) is not None]

    def edit_all(body: dict[str, Any]) -> None:
        for edit in edits:
            edit(body)

    return edit_all


def _pod_edit(change: Mapping[str, Any]) -> Edit | None:
    """What a change does to the spec of each pod; None for changes of anything else."""
    match change["kind"]:
        case "RequestAtMost":
            given = change.get("overheads"), change.get("defaults")
            return lambda spec: pod_specs.request_at_most(spec, change["amounts"], *given)
        case "UseResource":
            return lambda spec: pod_specs.use_resource(spec, change["name"], change["instead"])
        case "UseLabel":
            return lambda spec: pod_specs.use_label(spec, change)
        case "AddToleration":
            return lambda spec: pod_specs.tolerate(spec, change)
        case "RelaxRule":
            return lambda spec: pod_specs.relax(spec, change["rule"])
        case "UseClaim":
            return lambda spec: pod_specs.use_claim(spec, change["of"], change["name"], change["instead"])
        case "UseStorageClass":
            return lambda spec: pod_specs.use_storage_class(spec, change["storage_class"])
        case "SetPodField":
            return lambda spec: pod_specs.set_field(spec, change["field"], change["value"])
    return None
