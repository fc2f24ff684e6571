"""A tool's JSON schema in the forms that providers take. Pure; whatever a form loses, the tools check themselves.

STRICT   OpenAI's: every object closed, every key required, what was optional may be null; a subset of keywords
FLAT     Gemini's: no references, and nothing that may be null: what was, may be left out
AS_IS    the others'
"""

import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

Schema = Mapping[str, Any]

DEPTH_MAX = 10
NULL = {"type": "null"}

# Of constraints, what OpenAI documents for strict schemas. Lengths of texts were refused for long.
_KEPT = frozenset(
    {"type", "description", "enum", "pattern", "minItems", "maxItems", "multipleOf"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
)
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
# What changes which values there can be in a way that a strict schema has no words for
_INEXPRESSIBLE = frozenset(
    {"allOf", "oneOf", "not", "if", "patternProperties", "prefixItems", "dependentSchemas", "propertyNames"}
)
_NOT_FLAT = frozenset({"default", "title", "examples", "additionalProperties", "$defs", "$schema"})


class SchemaForm(StrEnum):
    STRICT = "strict"
    FLAT = "flat"
    AS_IS = "as it is"


class _InexpressibleError(Exception):
    """The schema has no equivalent in the form asked for."""


def strict(schema: Schema) -> dict[str, Any] | None:
    """The schema in OpenAI's strict form; None if it has none, and the tool goes out without strictness."""
    try:
        form = _strict(inlined(schema))
    except _InexpressibleError:
        return None
    return form if form.get("type") == "object" else None


def flat(schema: Schema) -> dict[str, Any]:
    """The schema without references and nulls; as it is, if it refers to itself."""
    try:
        return _flat(inlined(schema))
    except _InexpressibleError:
        return dict(schema)


def without_nulls(arguments: str, schema: Schema) -> str:
    """A call's arguments as `schema` means them: the nulls that only its strict form asked for are left out.

    Text that is no JSON object stays as it came, and so does everything where nothing is to be left out.
    """
    try:
        told, meant = json.loads(arguments), inlined(schema)
    except (ValueError, RecursionError, _InexpressibleError):
        return arguments
    kept = _meant(told, meant)
    return arguments if kept == told else json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def inlined(schema: Schema) -> dict[str, Any]:
    """The schema with every reference replaced by what it names. Raises _InexpressibleError for an endless one."""
    definitions = schema.get("$defs", {})

    def walk(node: Schema, depth: int) -> dict[str, Any]:
        if depth > 2 * DEPTH_MAX:
            raise _InexpressibleError
        if "$ref" in node:
            name = str(node["$ref"]).removeprefix("#/$defs/")
            if name not in definitions:
                raise _InexpressibleError
            beside = {key: value for key, value in node.items() if key != "$ref"}
            return walk({**definitions[name], **beside}, depth + 1)
        return _each({k: v for k, v in node.items() if k != "$defs"}, lambda inner: walk(inner, depth + 1))

    return walk(schema, 0)


def _each(node: Schema, change: Callable[[Schema], Schema]) -> dict[str, Any]:
    """The node with `change` made to each schema directly inside it."""
    changed = dict(node)
    if "properties" in node:
        changed["properties"] = {name: change(inner) for name, inner in node["properties"].items()}
    if isinstance(node.get("items"), Mapping):
        changed["items"] = change(node["items"])
    for several in ("anyOf", "oneOf", "allOf"):
        if several in node:
            changed[several] = [change(inner) for inner in node[several]]
    return changed


def _strict(node: Schema, depth: int = 0) -> dict[str, Any]:
    is_object = node.get("type") == "object" or "properties" in node
    opened = is_object and node.get("additionalProperties", False) is not False
    untyped = not {"type", "anyOf", "enum", "const"} & node.keys() and not is_object
    if depth > DEPTH_MAX or opened or untyped or _INEXPRESSIBLE & node.keys():
        raise _InexpressibleError
    inner = _each(node, lambda each: _strict(each, depth + 1))
    form = {key: value for key, value in inner.items() if key in _KEPT}
    if "const" in node:
        form["enum"] = [node["const"]]
    if node.get("format") in _FORMATS:
        form["format"] = node["format"]
    if "(?" in str(form.get("pattern", "")):  # what looks ahead or back
        del form["pattern"]
    for structure in ("items", "anyOf"):
        if structure in inner:
            form[structure] = inner[structure]
    if is_object:
        required = node.get("required", ())
        properties = {
            name: each if name in required else _nullable(each)
            for name, each in inner.get("properties", {}).items()
        }
        form |= {"type": "object", "properties": properties}
        form |= {"required": list(properties), "additionalProperties": False}
    return form


def _nullable(node: dict[str, Any]) -> dict[str, Any]:
    return node if _takes_null(node) else {"anyOf": [node, dict(NULL)]}


def _takes_null(node: Schema) -> bool:
    kinds = node.get("type")
    if kinds == "null" or (isinstance(kinds, list) and "null" in kinds):
        return True
    if None in node.get("enum", ()) or not node:
        return True
    return any(_takes_null(each) for each in (*node.get("anyOf", ()), *node.get("oneOf", ())))


def _flat(node: Schema) -> dict[str, Any]:
    choices = [each for each in node.get("anyOf", ()) if each != NULL]
    if len(choices) == 1 and len(node["anyOf"]) > 1:  # something or null
        beside = {key: value for key, value in node.items() if key != "anyOf"}
        return _flat({**choices[0], **beside})
    kept = {key: value for key, value in _each(node, _flat).items() if key not in _NOT_FLAT}
    if isinstance(node.get("type"), list):
        kinds = [kind for kind in node["type"] if kind != "null"]
        kept["type"] = kinds[0] if len(kinds) == 1 else kinds
    if "properties" in node and "required" in node:
        nullable = {name for name, each in node["properties"].items() if _takes_null(each)}
        kept["required"] = [name for name in node["required"] if name not in nullable]
    return kept


def _meant(value: Any, schema: Schema) -> Any:
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return [_meant(each, schema["items"]) for each in value]
    if not isinstance(value, dict):
        return value
    for choice in schema.get("anyOf", ()):
        if "properties" in choice:
            return _meant(value, choice)
    properties, required = schema.get("properties", {}), schema.get("required", ())
    return {
        name: _meant(each, properties.get(name, {}))
        for name, each in value.items()
        if each is not None or name not in properties or name in required or _takes_null(properties[name])
    }
