"""Printer columns of a definition's version."""

from __future__ import annotations

from unisono.api.columns import Column as PrinterColumn
from unisono.api.core.crd import CustomResourceDefinitionVersion

__all__ = ["PrinterColumn", "columns_of"]


def columns_of(version: CustomResourceDefinitionVersion) -> tuple[PrinterColumn, ...]:
    """What ``kubectl get`` shows after the name; empty: name and age are all there is."""
    return tuple(
        PrinterColumn(
            name=column.name,
            type=column.type,
            json_path=column.json_path,
            priority=column.priority or 0,
            description=column.description or "",
            format=column.format or "",
        )
        for column in version.additional_printer_columns or ()
    )
