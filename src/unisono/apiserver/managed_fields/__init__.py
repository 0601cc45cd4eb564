"""Who owns which field of an object: ``metadata.managedFields``, and server-side apply on top of it. Pure functions."""

from __future__ import annotations

from unisono.apiserver.managed_fields.managers import (
    BEFORE,
    Applied,
    FieldManager,
    ManagerEntry,
    apply,
    read_entries,
    record,
    write_entries,
)

__all__ = ["BEFORE", "Applied", "FieldManager", "ManagerEntry", "apply", "read_entries", "record", "write_entries"]
