"""Field types that the structs share.

``Meta(extra_json_schema=...)`` puts a constraint into the generated schema without msgspec enforcing it while decoding:
watching a real API server must never fail on a value that this version would have rejected.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

LABEL_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

Int32 = Annotated[int, Meta(extra_json_schema={"format": "int32"})]
Natural = Annotated[int, Meta(extra_json_schema={"format": "int32", "minimum": 0})]
Positive = Annotated[int, Meta(extra_json_schema={"format": "int32", "minimum": 1})]

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
MicroTime = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Base64 = Annotated[str, Meta(extra_json_schema={"format": "byte"})]

# A field of this type must be there; the empty string counts as missing, as in Kubernetes.
Required = Annotated[str, Meta(extra={"required": True})]
RequiredPort = Annotated[int, Meta(extra_json_schema={"format": "int32"}, extra={"required": True})]

ObjectName = Annotated[str, Meta(extra_json_schema={"maxLength": 253, "pattern": NAME_PATTERN})]
LongName = Annotated[str, Meta(extra_json_schema={"maxLength": 253})]
ShortName = Annotated[str, Meta(extra_json_schema={"maxLength": 63})]

# int32 or string on the wire (ports, percentages).
IntOrString = int | str
# A number or a string of Kubernetes' quantity grammar (``unisono.api.quantity``).
Quantity = str | int | float
# Resource name to quantity.
ResourceList = dict[str, Quantity]
# JSON that no struct describes; the schema preserves it.
FreeObject = dict[str, Any]
