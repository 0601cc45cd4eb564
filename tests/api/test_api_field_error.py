"""Field errors read as Kubernetes words them."""

import pytest

from unisono.api import field_error as errors
from unisono.api.field_error import FieldError, json_type


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (errors.required("a.b"), "a.b: Required value"),
        (errors.required("a", "why"), "a: Required value: why"),
        (errors.invalid("a[0]", 5, "why"), "a[0]: Invalid value: 5: why"),
        (errors.invalid("a", "x", "why"), 'a: Invalid value: "x": why'),
        (errors.duplicate("a", {"name": "n"}), 'a: Duplicate value: {"name":"n"}'),
        (errors.forbidden("a", "why"), "a: Forbidden: why"),
        (errors.not_supported("a", "g", ("r", "b")), 'a: Unsupported value: "g": supported values: "r", "b"'),
        (errors.too_long("a", "xxxxxx", 5), "a: Too long: may not be more than 5 bytes"),
        (errors.not_found("a", "v"), 'a: Not found: "v"'),
        (
            errors.type_invalid("a", "x", "integer"),
            'a: Invalid value: "string": a in body must be of type integer: "string"',
        ),
        (errors.required(""), "Required value"),
    ],
)
def test_messages(error: FieldError, message: str) -> None:
    assert error.message() == message


def test_causes_leave_the_field_out_of_the_message() -> None:
    assert errors.invalid("a", 5, "why").cause() == {
        "reason": "FieldValueInvalid",
        "message": "Invalid value: 5: why",
        "field": "a",
    }
    assert errors.type_invalid("a", [], "object").cause()["reason"] == "FieldValueTypeInvalid"


def test_types() -> None:
    assert [json_type(value) for value in (None, True, 1, 1.5, "", [], {})] == [
        "null",
        "boolean",
        "integer",
        "number",
        "string",
        "array",
        "object",
    ]
