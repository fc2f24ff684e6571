"""The HTTP face of ingest: the webhooks, mounted; health and metrics; and the OpenAPI document that describes them."""

from typing import Any

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from services.ingest.document import document
from services.ingest.routes import Hooks
from shared.telemetry.health import Ready, routes
from shared.telemetry.metrics import Metrics

HOOKS = "/hooks"


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
            app.openapi_schema = document(title=app.title, version=app.version)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the document
    return app
