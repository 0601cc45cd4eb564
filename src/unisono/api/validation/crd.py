"""Rules of CustomResourceDefinitions that concern one definition alone; conflicts of names are the API server's."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from unisono.api import names
from unisono.api.conditions import is_true
from unisono.api.core.crd import (
    CustomResourceColumnDefinition,
    CustomResourceDefinition,
    CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion,
    CustomResourceSubresourceScale,
    SelectableField,
)
from unisono.api.field_error import FieldError, duplicate, forbidden, invalid, required
from unisono.api.groups.admission_registration import WebhookClientConfig
from unisono.api.structural.node import Node, PathError, compile_schema, field_path
from unisono.api.structural.pruning import read_schema
from unisono.api.structural.rules import check_schema
from unisono.api.validation.access import validate_client
from unisono.api.validation.meta import one_of

APPROVAL = "api-approved.kubernetes.io"
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MOST_SELECTABLE = 8


def validate_crd(crd: CustomResourceDefinition, old: CustomResourceDefinition | None) -> Iterator[FieldError]:
    """Names, versions, schemas, columns, subresources; what an update may not change."""
    spec = crd.spec
    if crd.metadata.name != f"{spec.names.plural}.{spec.group}":
        yield invalid("metadata.name", crd.metadata.name, 'must be spec.names.plural+"."+spec.group')
    yield from _group(crd, old)
    yield from _scope(spec)
    unchanged = _unchanged(spec, old)
    for index, version in enumerate(spec.versions or ()):
        yield from _version(version, f"spec.versions[{index}]", schema=version.name not in unchanged)
    yield from _versions(spec)
    yield from _names(spec.names, "spec.names")
    yield from _conversion(spec)
    yield from _stored(crd)
    if spec.preserve_unknown_fields and not (old and old.spec.preserve_unknown_fields):
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield invalid("spec.preserveUnknownFields", True, why)
    if old is not None:
        yield from _immutable(crd, old)


def _group(crd: CustomResourceDefinition, old: CustomResourceDefinition | None) -> Iterator[FieldError]:
    group = crd.spec.group
    if not group:
        yield required("spec.group")
        return
    problems = names.dns_subdomain(group)
    if problems:
        yield invalid("spec.group", group, ",".join(problems))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    if old is None and f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        approval = (crd.metadata.annotations or {}).get(APPROVAL)
        at = f"metadata.annotations[{APPROVAL}]"
        if not approval:
            yield required(
                at,
                "protected groups must have approval annotation "
                f'"{APPROVAL}", see https://github.com/kubernetes/enhancements/pull/1111',
            )
        elif not approval.startswith(("http://", "https://", "unapproved")):
            why = (
                f'protected groups must have approval annotation "{APPROVAL}" with either a URL or a reason starting '
                'with "unapproved", see https://github.com/kubernetes/enhancements/pull/1111'
            )
            yield invalid(at, approval, why)


def _scope(spec: CustomResourceDefinitionSpec) -> Iterator[FieldError]:
    if not spec.scope:
        yield required("spec.scope")
    else:
        yield from one_of("spec.scope", spec.scope, ("Cluster", "Namespaced"))


def _unchanged(spec: CustomResourceDefinitionSpec, old: CustomResourceDefinition | None) -> set[str]:
    """Versions whose schema was accepted before, perhaps by older rules."""
    if old is None:
        return set()
    before = {version.name: version for version in old.spec.versions or ()}
    return {
        version.name
        for version in spec.versions or ()
        if version.name in before
        and version.schema == before[version.name].schema
        and version.subresources == before[version.name].subresources
    }


def _version(version: CustomResourceDefinitionVersion, path: str, *, schema: bool) -> Iterator[FieldError]:
    problems = names.dns_1035_label(version.name)
    if problems:
        yield invalid(f"{path}.name", version.name, ",".join(problems))
    yield from _deprecation(version, path)
    node = Node()
    at = f"{path}.schema.openAPIV3Schema"
    raw = version.schema.open_apiv3_schema if version.schema else None
    if raw is None:
        yield required(at)
    else:
        node = compile_schema(raw)
        if schema:
            yield from _schema(version, raw, at)
    scale = version.subresources.scale if version.subresources else None
    if scale is not None:
        yield from _scale(scale, f"{path}.subresources")
    for index, column in enumerate(version.additional_printer_columns or ()):
        yield from _column(column, f"{path}.additionalPrinterColumns[{index}]")
    if version.selectable_fields:
        yield from _selectable(version.selectable_fields, node, f"{path}.selectableFields")


def _schema(version: CustomResourceDefinitionVersion, raw: object, path: str) -> Iterator[FieldError]:
    clean, _, errors = read_schema(raw, path)
    yield from errors
    if not errors:
        status = version.subresources is not None and version.subresources.status is not None
        yield from check_schema(clean, path, status=status)


def _deprecation(version: CustomResourceDefinitionVersion, path: str) -> Iterator[FieldError]:
    at, warning = f"{path}.deprecationWarning", version.deprecation_warning
    if warning is None:
        return
    if not version.deprecated:
        yield invalid(at, warning, "can only be set for deprecated versions")
        return
    if len(warning.encode()) > 256:
        yield invalid(at, warning, "must be <= 256 characters long")
    if not warning:
        yield invalid(at, warning, "must not be an empty string")
    index = next((index for index, char in enumerate(warning) if not char.isprintable()), None)
    if index is not None:
        why = f"must only contain printable UTF-8 characters; non-printable character found at index {index}"
        yield invalid(at, warning, why)


def _versions(spec: CustomResourceDefinitionSpec) -> Iterator[FieldError]:
    version_names = [version.name for version in spec.versions or ()]
    if len(set(version_names)) != len(version_names):
        yield invalid("spec.versions", version_names, "must contain unique version names")
    if sum(1 for version in spec.versions or () if version.storage) != 1:
        yield invalid("spec.versions", version_names, "must have exactly one version marked as storage version")


def _names(kind: CustomResourceDefinitionNames, path: str) -> Iterator[FieldError]:
    for word, value in (
        ("plural", kind.plural),
        ("singular", kind.singular),
        ("kind", kind.kind),
        ("listKind", kind.list_kind),
    ):
        if not value:
            yield required(f"{path}.{word}")
            continue
        mixed = word in ("kind", "listKind")
        problems = names.dns_1035_label(value.lower() if mixed else value)
        if problems:
            prefix = "may have mixed case, but should otherwise match: " if mixed else ""
            yield invalid(f"{path}.{word}", value, prefix + ",".join(problems))
    for word, values in (("shortNames", kind.short_names), ("categories", kind.categories)):
        for index, value in enumerate(values or ()):
            problems = names.dns_1035_label(value)
            if problems:
                yield invalid(f"{path}.{word}[{index}]", value, ",".join(problems))
    if kind.kind and kind.kind == kind.list_kind:
        yield invalid(f"{path}.listKind", kind.list_kind, "kind and listKind may not be the same")


def _column(column: CustomResourceColumnDefinition, path: str) -> Iterator[FieldError]:
    if not column.name:
        yield required(f"{path}.name")
    types = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not column.type:
        yield required(f"{path}.type", types)
    elif column.type not in _COLUMN_TYPES:
        yield invalid(f"{path}.type", column.type, types)
    if column.format and column.format not in _COLUMN_FORMATS:
        yield invalid(f"{path}.format", column.format, f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not column.json_path:
        yield required(f"{path}.JSONPath")
    else:
        yield from _simple_path(column.json_path, f"{path}.JSONPath")


def _simple_path(value: str, path: str) -> Iterator[FieldError]:
    if not value.startswith("."):
        yield invalid(path, value, "must be a simple json path starting with .")


def _scale(scale: CustomResourceSubresourceScale, path: str) -> Iterator[FieldError]:
    for word, value, roots in (
        ("specReplicasPath", scale.spec_replicas_path, (".spec.",)),
        ("statusReplicasPath", scale.status_replicas_path, (".status.",)),
        ("labelSelectorPath", scale.label_selector_path, (".spec.", ".status.")),
    ):
        at = f"{path}.scale.{word}"
        if not value:
            if word != "labelSelectorPath":
                yield required(at)
        elif not value.startswith("."):
            yield from _simple_path(value, at)
        elif not value.startswith(roots):
            where = "either .spec or .status" if len(roots) > 1 else roots[0].rstrip(".")
            yield invalid(at, value, f"should be a json path under {where}")


def _selectable(fields: list[SelectableField], node: Node, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, each in enumerate(fields):
        at = f"{path}[{index}].jsonPath"
        if not each.json_path:
            yield required(at)
            continue
        try:
            steps, shown, field = field_path(each.json_path, node, brackets=False)
        except PathError as error:
            yield invalid(at, each.json_path, f"is an invalid path: {error}")
            continue
        if steps[0] == "metadata":
            yield invalid(at, each.json_path, "must not point to fields in metadata")
        if field.type not in ("string", "boolean", "integer"):
            why = (
                "must point to a field of type string, boolean or integer. Enum string fields and strings with "
                "formats are allowed."
            )
            yield invalid(at, each.json_path, why)
        if shown in seen:
            yield duplicate(at, each.json_path)
        seen.add(shown)
    if len(seen) > _MOST_SELECTABLE:
        yield FieldError(path, "FieldValueTooMany", len(seen), f"must have at most {_MOST_SELECTABLE} items")


def _conversion(spec: CustomResourceDefinitionSpec) -> Iterator[FieldError]:
    conversion, at = spec.conversion, "spec.conversion"
    if conversion is None:
        return
    if not conversion.strategy:
        yield required(f"{at}.strategy")
        return
    yield from one_of(f"{at}.strategy", conversion.strategy, ("None", "Webhook"))
    webhook = conversion.webhook
    if conversion.strategy != "Webhook":
        if webhook:
            yield forbidden(f"{at}.webhookClientConfig", "should not be set when strategy is not set to Webhook")
        return
    yield from _client((webhook or {}).get("clientConfig"), f"{at}.webhookClientConfig")
    reviews = (webhook or {}).get("conversionReviewVersions")
    if not isinstance(reviews, list) or not reviews:
        yield required(f"{at}.conversionReviewVersions")
    elif not {"v1", "v1beta1"} & {str(each) for each in reviews}:
        yield invalid(f"{at}.conversionReviewVersions", reviews, "must include at least one of v1, v1beta1")


def _client(config: object, path: str) -> Iterator[FieldError]:
    if not isinstance(config, dict):
        yield required(path, "required when strategy is set to Webhook")
        return
    try:
        client = msgspec.convert(config, WebhookClientConfig)
    except msgspec.ValidationError as error:
        yield invalid(path, config, str(error))
        return
    if client.service is not None and client.service.port is None:
        client.service.port = 443
    yield from validate_client(client, path)


def _stored(crd: CustomResourceDefinition) -> Iterator[FieldError]:
    path, stored = "status.storedVersions", crd.status.stored_versions or []
    version_names = {version.name for version in crd.spec.versions or ()}
    for index, name in enumerate(stored):
        if name not in version_names:
            why = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions"
            )
            yield invalid(f"{path}[{index}]", name, why)


def _immutable(crd: CustomResourceDefinition, old: CustomResourceDefinition) -> Iterator[FieldError]:
    spec, before = crd.spec, old.spec
    established = is_true(old.status.conditions, "Established")
    for path, after, earlier, always in (
        ("spec.scope", spec.scope, before.scope, False),
        ("spec.names.kind", spec.names.kind, before.names.kind, False),
        ("spec.group", spec.group, before.group, True),
        ("spec.names.plural", spec.names.plural, before.names.plural, True),
    ):
        if after != earlier and (always or established):
            yield invalid(path, after, "field is immutable")
