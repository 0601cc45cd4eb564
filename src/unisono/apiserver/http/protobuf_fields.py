"""The protobuf messages of Kubernetes' built-in kinds: field numbers, names and types.

The numbers are part of Kubernetes' public protocol and never change; ``protobuf_fields.txt`` lists them. A line there
is one message, ``group.Name: number name type, ...``; lines that begin with ``@`` say which messages stand at the top
of a body: ``@group apiVersion: kind kind ...``. A type is a scalar (``string``, ``int``, ``bool``, ``bytes``), a
well-known message (``time``, ``microtime``, ``quantity``, ``intstr``, ``json``), or another message; ``[]T`` is a list,
``map:T`` a map from text, ``list:T`` a message that holds nothing but a list. Marks after a type:

* ``?`` the field may be absent, and an empty value means something (a pointer in Go);
* ``!`` zero is written out in JSON; without a mark zero and empty are the same as absent;
* ``^`` the fields of the message stand in the JSON of the one around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

Shape = Literal["one", "many", "map"]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message.

    Attributes:
        name: in JSON.
        type: of the value, of a list's items or of a map's values.
        shape: one value, a list or a map.
        optional: an empty value is told from none.
        zero: JSON has the field even when it is zero.
        inline: the fields of the message stand in the JSON of the one around it.

    """

    name: str
    type: str
    shape: Shape
    optional: bool
    zero: bool
    inline: bool


Message = dict[int, Field]


@dataclass(frozen=True, slots=True)
class Protocol:
    """All messages, and those at the top of a body by apiVersion and kind."""

    messages: dict[str, Message]
    top: dict[tuple[str, str], str]

    def find(self, api_version: str, kind: str) -> str | None:
        """The message of a kind; None for a kind that has none, such as every custom one."""
        if kind in ("DeleteOptions", "Status"):
            # Clients send these under the version of the group that they talk to.
            return f"meta.{kind}"
        return self.top.get((api_version, kind))


@cache
def protocol() -> Protocol:
    """The table, read when first needed."""
    messages: dict[str, Message] = {}
    top: dict[tuple[str, str], str] = {}
    text = files("unisono.apiserver.http").joinpath("protobuf_fields.txt").read_text("utf-8")
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name.startswith("@"):
            group, api_version = name[1:].split(" ")
            top.update({(api_version, kind): f"{group}.{kind}" for kind in rest.split()})
        elif not line.startswith("#"):
            messages[name] = dict(_field(each) for each in rest.strip().split(", ") if each)
    return Protocol(messages, top)


def _field(text: str) -> tuple[int, Field]:
    number, name, kind = text.split(" ")
    bare = kind.rstrip("?!^")
    marks = kind[len(bare) :]
    shape: Shape = "many" if bare.startswith("[]") else "map" if bare.startswith("map:") else "one"
    bare = bare.removeprefix("[]").removeprefix("map:")
    return int(number), Field(name, bare, shape, "?" in marks, "!" in marks, "^" in marks)
