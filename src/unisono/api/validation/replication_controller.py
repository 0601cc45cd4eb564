"""Rules of ReplicationControllers."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api.core.replication_controller import ReplicationController
from unisono.api.field_error import FieldError, forbidden, invalid, not_supported, required
from unisono.api.validation.meta import at_least, validate_labels
from unisono.api.validation.pod import validate_template


def validate_replication_controller(
    controller: ReplicationController, old: ReplicationController | None
) -> Iterator[FieldError]:
    """Counts, selector and template."""
    spec, status, path = controller.spec, controller.status, "spec.template"
    yield from at_least("spec.minReadySeconds", spec.min_ready_seconds, 0)
    if not spec.selector:
        yield required("spec.selector")
    yield from validate_labels(spec.selector, "spec.selector")
    yield from at_least("spec.replicas", spec.replicas, 0)
    template = spec.template
    if template is None:
        yield required(path)
    else:
        labels = template.metadata.labels or {}
        if any(labels.get(key) != value for key, value in (spec.selector or {}).items()):
            detail = "`selector` does not match template `labels`"
            yield invalid(f"{path}.metadata.labels", template.metadata.labels, detail)
        yield from validate_template(template, path)
        if template.spec.restart_policy not in (None, "Always"):
            yield not_supported(f"{path}.spec.restartPolicy", template.spec.restart_policy, ("Always",))
        if template.spec.active_deadline_seconds is not None:
            detail = "activeDeadlineSeconds in ReplicationController is not Supported"
            yield forbidden(f"{path}.spec.activeDeadlineSeconds", detail)
    counts = {
        "fullyLabeledReplicas": status.fully_labeled_replicas,
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
    }
    yield from at_least("status.replicas", status.replicas, 0)
    for name, count in counts.items():
        yield from at_least(f"status.{name}", count, 0)
        if (count or 0) > (status.replicas or 0):
            yield invalid(f"status.{name}", count, "cannot be greater than status.replicas")
