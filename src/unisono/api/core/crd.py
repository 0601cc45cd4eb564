"""CustomResourceDefinition (apiextensions.k8s.io/v1)."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Condition, FreeObject, Int32, Object, Required


class CustomResourceDefinitionNames(Base):
    """Names of a kind."""

    plural: Required = ""
    singular: str | None = None
    short_names: list[str] | None = None
    kind: Required = ""
    list_kind: str | None = None
    categories: list[str] | None = None


class CustomResourceColumnDefinition(Base):
    """A column of ``kubectl get``."""

    name: Required = ""
    type: Required = ""
    format: str | None = None
    description: str | None = None
    priority: Int32 | None = None
    json_path: Required = msgspec.field(default="", name="jsonPath")


class CustomResourceValidation(Base):
    """The structural schema."""

    open_apiv3_schema: FreeObject | None = msgspec.field(default=None, name="openAPIV3Schema")


class CustomResourceSubresourceScale(Base):
    """Where the scale subresource reads and writes."""

    spec_replicas_path: Required = ""
    status_replicas_path: Required = ""
    label_selector_path: str | None = None


class CustomResourceSubresources(Base):
    """Subresources of a version."""

    status: FreeObject | None = None
    scale: CustomResourceSubresourceScale | None = None


class SelectableField(Base):
    """A path usable in field selectors."""

    json_path: Required = ""


class CustomResourceDefinitionVersion(Base):
    """One version of a kind."""

    name: Required = ""
    served: bool | None = None
    storage: bool | None = None
    deprecated: bool | None = None
    deprecation_warning: str | None = None
    schema: CustomResourceValidation | None = None
    subresources: CustomResourceSubresources | None = None
    additional_printer_columns: list[CustomResourceColumnDefinition] | None = None
    selectable_fields: list[SelectableField] | None = None


class CustomResourceConversion(Base):
    """How versions are converted; strategies are None and Webhook."""

    strategy: Required = ""
    webhook: FreeObject | None = None


class CustomResourceDefinitionSpec(Base):
    """A kind that is added to the API."""

    group: Required = ""
    names: CustomResourceDefinitionNames = msgspec.field(default_factory=CustomResourceDefinitionNames)
    scope: Required = ""
    versions: list[CustomResourceDefinitionVersion] | None = None
    conversion: CustomResourceConversion | None = None
    preserve_unknown_fields: bool | None = None


class CustomResourceDefinitionStatus(Base):
    """Conditions are NamesAccepted, Established, ..."""

    conditions: list[Condition] | None = None
    accepted_names: CustomResourceDefinitionNames | None = None
    stored_versions: list[str] | None = None
    observed_generation: int | None = None


class CustomResourceDefinition(Object):
    """A kind that users add."""

    spec: CustomResourceDefinitionSpec = msgspec.field(default_factory=CustomResourceDefinitionSpec)
    status: CustomResourceDefinitionStatus = msgspec.field(default_factory=CustomResourceDefinitionStatus)
