"""Schemas in the forms that providers take: by OpenAI's rules, flat for Gemini, and back again without loss."""

import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from shared.llm.schemas import flat, strict, without_nulls
from shared.packs import load_packs


class Guest(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=80)
    allergies: list[str] = []


class Booking(BaseModel):
    model_config = ConfigDict(extra="forbid")
    day: str = Field(pattern=r"^20\d\d-\d\d-\d\d$", description="ISO", examples=["2026-12-01"])
    part: Literal["morning", "evening"] | None = None
    seats: int = Field(default=2, ge=1, le=12)
    guests: list[Guest] = []
    host: Guest | None = None


BOOKING = Booking.model_json_schema()


def nodes(schema: Any) -> Iterator[dict]:
    """Every schema in a schema."""
    if isinstance(schema, dict):
        yield schema
        for inner in (*schema.get("properties", {}).values(), *schema.get("anyOf", ())):
            yield from nodes(inner)
        yield from nodes(schema.get("items"))


def refused_by_openai(schema: dict) -> list[str]:
    """What OpenAI's documented rules for strict schemas find wrong."""
    wrong = [] if schema.get("type") == "object" else ["the root is no object"]
    for node in nodes(schema):
        unknown = {"default", "allOf", "oneOf", "not", "if", "title", "minLength", "maxLength", "$ref"} & set(
            node
        )
        wrong += [f"{word} is no keyword here" for word in unknown]
        if node.get("type") == "object":
            wrong += [] if node.get("additionalProperties") is False else ["an open object"]
            wrong += (
                [] if node.get("required") == list(node["properties"]) else ["a key that is not required"]
            )
    return wrong


@pytest.mark.parametrize(
    "schema",
    [BOOKING, *(tool.arguments.model_json_schema() for pack in load_packs().values() for tool in pack.tools)],
)
def test_a_strict_schema_keeps_openais_rules(schema: dict) -> None:
    form = strict(schema)
    assert form is not None
    assert refused_by_openai(form) == []
    assert set(form["properties"]) == set(schema["properties"])


def test_what_was_optional_may_be_null_and_what_was_required_may_not() -> None:
    form = strict(BOOKING)
    assert form is not None
    assert form["properties"]["day"] == {
        "type": "string", "pattern": r"^20\d\d-\d\d-\d\d$", "description": "ISO",
    }  # fmt: skip
    assert form["properties"]["seats"] == {
        "anyOf": [{"type": "integer", "minimum": 1, "maximum": 12}, {"type": "null"}]
    }
    assert form["properties"]["part"]["anyOf"] == [
        {"type": "string", "enum": ["morning", "evening"]},
        {"type": "null"},
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"x": {}}},
        {"type": "object", "properties": {"x": {"not": {"type": "null"}}}},
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/Nowhere"}}},
        {
            "type": "object",
            "properties": {"x": {"$ref": "#/$defs/Tree"}},
            "$defs": {"Tree": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
        },
        {"type": "string"},
        {"anyOf": [{"type": "object", "properties": {}}, {"type": "null"}]},
    ],
)
def test_a_schema_that_strictness_has_no_words_for_is_not_made_strict(schema: dict) -> None:
    assert strict(schema) is None


def test_a_property_may_be_called_as_a_keyword_is() -> None:
    schema = {"type": "object", "properties": {"default": {"type": "string"}, "title": {"type": "string"}}}
    form = strict(schema)
    assert form is not None
    assert set(form["properties"]) == {"default", "title"}
    assert set(flat(schema)["properties"]) == {"default", "title"}


def test_a_flat_schema_has_no_references_and_no_nulls() -> None:
    form = flat(BOOKING)
    for node in nodes(form):
        assert not {"anyOf", "$ref", "$defs", "default", "title", "additionalProperties"} & set(node)
    assert form["required"] == ["day"]
    assert form["properties"]["part"] == {"enum": ["morning", "evening"], "type": "string"}
    assert form["properties"]["host"]["required"] == ["name"]


def test_what_had_to_be_there_but_could_be_null_may_be_left_out_of_a_flat_one() -> None:
    kinds = {"a": {"type": ["string", "null"]}, "b": {"type": "string"}}
    form = flat({"type": "object", "properties": kinds, "required": ["a", "b"]})
    assert form == {"type": "object", "properties": {k: {"type": "string"} for k in kinds}, "required": ["b"]}


def test_the_original_is_left_as_it_was() -> None:
    before = json.dumps(BOOKING)
    strict(BOOKING)
    flat(BOOKING)
    assert json.dumps(BOOKING) == before


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ('{"day": "2026-12-01", "seats": null, "guests": null}', {"day": "2026-12-01"}),
        ('{"day": "2026-12-01", "part": null}', {"day": "2026-12-01", "part": None}),
        (
            '{"day": "x", "host": {"name": "Ana", "allergies": null}}',
            {"day": "x", "host": {"name": "Ana"}},
        ),
        (
            '{"day": "x", "guests": [{"name": "Ș", "allergies": null}]}',
            {"day": "x", "guests": [{"name": "Ș"}]},
        ),
        ('{"day": null, "other": null}', {"day": None, "other": None}),
    ],
)
def test_nulls_that_only_strictness_asked_for_are_left_out(told: str, meant: dict) -> None:
    assert json.loads(without_nulls(told, BOOKING)) == meant


@pytest.mark.parametrize(
    "told", ["", "{", "[1]", "null", '"x"', '{"day": "x"}', '{ "day" :1e3}', "[" * 100_000]
)
def test_arguments_with_nothing_to_leave_out_stay_letter_for_letter(told: str) -> None:
    assert without_nulls(told, BOOKING) == told


@given(
    day=st.dates().map(lambda day: f"20{day:%y-%m-%d}"),
    part=st.sampled_from(["morning", "evening", None]),
    seats=st.none() | st.integers(min_value=1, max_value=12),
    host=st.none() | st.fixed_dictionaries({"name": st.text(max_size=5), "allergies": st.none()}),
)
def test_whatever_the_strict_form_allows_the_tool_understands(
    day: str, part: str | None, seats: int | None, host: dict | None
) -> None:
    told = json.dumps({"day": day, "part": part, "seats": seats, "guests": None, "host": host})
    booking = Booking.model_validate_json(without_nulls(told, BOOKING))
    assert (booking.day, booking.part, booking.seats) == (day, part, seats or 2)
