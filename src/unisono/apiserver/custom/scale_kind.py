"""The kind of the ``scale`` subresource."""

from __future__ import annotations

from unisono.api.base import Object
from unisono.api.kind import Kind

SCALES: Kind[Object] = Kind("autoscaling", "v1", "Scale", "scales", Object)
