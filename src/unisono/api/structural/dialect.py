"""Which words a schema may use and of what JSON type their values are; unknown words are dropped."""

from __future__ import annotations

from typing import Any

from unisono.api.field_error import FieldError, type_invalid

_KINDS: dict[str, str] = {
    **dict.fromkeys(
        (
            "id",
            "$schema",
            "$ref",
            "description",
            "type",
            "format",
            "title",
            "pattern",
            "x-kubernetes-list-type",
            "x-kubernetes-map-type",
        ),
        "string",
    ),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), "number"),
    **dict.fromkeys(
        ("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"),
        "integer",
    ),
    **dict.fromkeys(
        (
            "exclusiveMaximum",
            "exclusiveMinimum",
            "uniqueItems",
            "nullable",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-int-or-string",
        ),
        "boolean",
    ),
    **dict.fromkeys(("enum",), "array"),
    **dict.fromkeys(("required", "x-kubernetes-list-map-keys"), "strings"),
    **dict.fromkeys(("allOf", "oneOf", "anyOf"), "schemas"),
    **dict.fromkeys(("properties", "patternProperties", "definitions"), "schema map"),
    **dict.fromkeys(("not",), "schema"),
    **dict.fromkeys(("additionalProperties", "additionalItems"), "schema or boolean"),
    "items": "schema or list",
    "dependencies": "object",
    "externalDocs": "object",
    "default": "any",
    "example": "any",
    "x-kubernetes-validations": "rules",
}
_RULE: dict[str, str] = {
    **dict.fromkeys(("rule", "message", "messageExpression", "reason", "fieldPath"), "string"),
    "optionalOldSelf": "boolean",
}


def read_schema(schema: Any, path: str) -> tuple[Any, list[str], list[FieldError]]:
    """The schema without unknown words and values of a wrong type.

    Returns:
        The clean schema, the paths of unknown words, and the wrong types.

    """
    reader = _Reader()
    return reader.schema(schema, path), reader.unknown, reader.errors


class _Reader:
    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.errors: list[FieldError] = []

    def schema(self, value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            return self._wrong(value, path, "object")
        clean: dict[str, Any] = {}
        for word, each in value.items():
            kind, at = _KINDS.get(word), f"{path}.{word}"
            if kind is None:
                self.unknown.append(at)
            elif each is not None:
                read = self._value(kind, each, at)
                if read is not None:
                    clean[word] = read
        return clean

    def _value(self, kind: str, value: Any, path: str) -> Any:
        match kind:
            case "any":
                return value
            case "schema":
                return self.schema(value, path)
            case "schema or boolean":
                return value if isinstance(value, bool) else self.schema(value, path)
            case "schema or list":
                return value if isinstance(value, list) else self.schema(value, path)
            case "schema map":
                return self._map(value, path)
            case "schemas":
                return self._list(value, path, self.schema)
            case "strings":
                return self._list(value, path, lambda each, at: self._scalar("string", each, at))
            case "rules":
                return self._list(value, path, self._rule)
            case _:
                return self._scalar(kind, value, path)

    def _map(self, value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            return self._wrong(value, path, "object")
        return {name: self.schema(each, f"{path}.{name}") or {} for name, each in value.items()}

    def _list(self, value: Any, path: str, read: Any) -> Any:
        if not isinstance(value, list):
            return self._wrong(value, path, "array")
        found = [read(each, f"{path}[{index}]") for index, each in enumerate(value)]
        return [each for each in found if each is not None]

    def _rule(self, value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            return self._wrong(value, path, "object")
        self.unknown += [f"{path}.{name}" for name in value if name not in _RULE]
        read = {
            name: self._scalar(_RULE[name], each, f"{path}.{name}")
            for name, each in value.items()
            if name in _RULE and each is not None
        }
        return {name: each for name, each in read.items() if each is not None}

    def _scalar(self, kind: str, value: Any, path: str) -> Any:
        fits = {
            "string": isinstance(value, str),
            "boolean": isinstance(value, bool),
            "array": isinstance(value, list),
            "object": isinstance(value, dict),
            "number": isinstance(value, int | float) and not isinstance(value, bool),
            "integer": isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer(),
        }[kind]
        if not fits:
            return self._wrong(value, path, kind)
        return int(value) if kind == "integer" else value

    def _wrong(self, value: Any, path: str, expected: str) -> None:
        self.errors.append(type_invalid(path, value, expected))
