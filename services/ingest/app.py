"""The HTTP face of ingest: the webhooks, mounted; health and metrics; and the OpenAPI document that describes them."""

from typing import Any

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from services.ingest.core.entrances import ENTRANCES
from services.ingest.core.generic import Event
from services.ingest.core.sim import SimMessage, SimStatus
from services.ingest.routes import Hooks
from shared.telemetry.health import Ready, routes
from shared.telemetry.metrics import Metrics

HOOKS = "/hooks"

_SIGNATURE_HEADERS = (
    ("webhook-id", "Unique per message and the same over retries; no dot in it."),
    ("webhook-timestamp", "Unix seconds of this attempt; five minutes off at most."),
    ("webhook-signature", "Standard Webhooks v1: `v1,` and base64 of HMAC-SHA256 over `id.timestamp.body`."),
)
_ANSWERS = {
    "200": "Stored, or stored before.",
    "400": "Not readable, an id or timestamp missing, or a timestamp outside the tolerance; the body says which.",
    "401": "The signature is wrong.",
    "404": "No such channel account.",
    "405": "Not a POST.",
    "413": f"More than {ENTRANCES['generic'].body_bytes_max} bytes.",
    "503": "Not stored: deliver it again.",
}


class App(FastAPI):
    """FastAPI whose webhooks go past its middleware, which costs as much as all the rest of a webhook in Python."""

    def __init__(self, *, hooks: Hooks) -> None:
        super().__init__(
            title="Leeway", version="1", docs_url=None, redoc_url=None, openapi_url="/openapi.json"
        )
        self._hooks = hooks
        self.mount(HOOKS, hooks)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        root = scope.get("root_path", "") + HOOKS
        if scope["type"] == "http" and scope["path"].startswith(root + "/"):
            await self._hooks({**scope, "root_path": root}, receive, send)
        else:
            await super().__call__(scope, receive, send)


def build_app(*, hooks: Hooks, metrics: Metrics, ready: Ready) -> FastAPI:
    """The app; the hot route is plain ASGI below `/hooks`."""
    app = App(hooks=hooks)
    app.router.routes.extend(routes(metrics=metrics, ready=ready))

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the document
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    sim = {
        "type": "object",
        "properties": {
            "messages": {"type": "array", "items": _schema(SimMessage)},
            "statuses": {"type": "array", "items": _schema(SimStatus)},
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": app.title, "version": app.version},
        "paths": {
            "/hooks/generic/{account}": {
                "post": _operation("A message by the generic signed webhook.", _schema(Event))
            },
            "/hooks/sim/{account}": {
                "post": _operation("Messages and statuses of a simulated telephone.", sim)
            },
        },
    }


def _operation(summary: str, schema: dict[str, Any]) -> dict[str, Any]:
    parameters = [
        {"name": "account", "in": "path", "required": True, "schema": {"type": "string"}},
        *(
            {
                "name": name,
                "in": "header",
                "required": True,
                "description": text,
                "schema": {"type": "string"},
            }
            for name, text in _SIGNATURE_HEADERS
        ),
    ]
    return {
        "summary": summary,
        "parameters": parameters,
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {
            status: {"description": text, "content": {"text/plain": {"schema": {"type": "string"}}}}
            for status, text in _ANSWERS.items()
        },
    }


def _schema(model: Any) -> dict[str, Any]:
    """The model's JSON schema with its definitions put in place, so that the document needs no components."""
    schema: dict[str, Any] = model.model_json_schema(by_alias=True)
    definitions = schema.pop("$defs", {})

    def inlined(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return inlined(definitions[value["$ref"].rsplit("/", 1)[-1]])
            return {key: inlined(item) for key, item in value.items()}
        return [inlined(item) for item in value] if isinstance(value, list) else value

    result: dict[str, Any] = inlined(schema)
    return result
