"""Makes the FastAPI application of a server of the federation, with its errors and its document."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from penstock import __version__
from penstock.errors import PenstockError
from penstock.federation.access import Access
from penstock.federation.api_page import page
from penstock.federation.checked_app import refusal_response
from penstock.federation.refusals import Reason, RefusedError
from penstock.federation.strict_json import complaint, fit

SCHEMAS = "#/components/schemas/"
Body = TypeVar("Body", bound=BaseModel)
Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]
"""Is entered when the server starts, and left when it stops."""
REASON_OF_STATUS = {404: Reason.UNKNOWN_PATH, 405: Reason.WRONG_METHOD}


async def caller_of(request: Request) -> str:
    """Answers the name of who calls; ``CheckedApp`` has found it out."""
    return str(request.state.caller)


def body_of(model: type[Body]) -> Callable[[Request], Awaitable[Body]]:
    """Makes a dependency that answers the body as a message, without converting types."""

    async def read(request: Request) -> Body:
        return fit(model, request.state.body)

    return read


def takes(model: type[BaseModel]) -> dict[str, Any]:
    """Describes a body in the document of the interface."""
    content = {"application/json": {"schema": {"$ref": SCHEMAS + model.__name__}}}
    return {"requestBody": {"required": True, "content": content}}


class _Api(FastAPI):
    """Adds to its document what the bodies are made of, which FastAPI does not see."""

    def __init__(
        self, title: str, bodies: tuple[type[BaseModel], ...], lifespan: Lifespan | None
    ) -> None:
        super().__init__(
            title=title,
            version=__version__,
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
            lifespan=lifespan,
        )
        self._bodies = bodies

    def openapi(self) -> dict[str, Any]:
        """Answers the document of the interface."""
        document = super().openapi()
        known = document.setdefault("components", {}).setdefault("schemas", {})
        for model in self._bodies:
            schema = model.model_json_schema(ref_template=SCHEMAS + "{model}")
            known.update(schema.pop("$defs", {}))
            known[model.__name__] = schema
        return document


def make_api(
    title: str,
    access: Access,
    bodies: tuple[type[BaseModel], ...],
    lifespan: Lifespan | None = None,
) -> FastAPI:
    """Makes an application without endpoints of its own, but for the health and the document."""
    app = _Api(title, bodies, lifespan)
    _answer_errors(app, access)

    @app.get("/health")
    async def health() -> dict[str, bool]:
        """Says that the process listens."""
        return {"ok": True}

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        """Shows the document of the interface to people."""
        return HTMLResponse(page(app.openapi()))

    return app


def _answer_errors(app: FastAPI, access: Access) -> None:
    """Answers every mistake in the same form, and counts it."""

    def refuse(refused: RefusedError) -> Response:
        access.refusals.count(refused.reason)
        return refusal_response(refused)

    @app.exception_handler(PenstockError)
    async def mistaken(_: Request, error: Exception) -> Response:
        if isinstance(error, RefusedError):
            return refuse(error)
        return refuse(RefusedError(Reason.NOT_POSSIBLE, str(error)))

    @app.exception_handler(RequestValidationError)
    async def misfit(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return refuse(RefusedError(Reason.BAD_MESSAGE, complaint(error.errors())))

    @app.exception_handler(HTTPException)
    async def lost(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        reason = REASON_OF_STATUS.get(error.status_code, Reason.BAD_MESSAGE)
        return refuse(RefusedError(reason, str(error.detail)))

    @app.exception_handler(Exception)
    async def failed(_: Request, __: Exception) -> Response:
        return JSONResponse({"error": "failed inside; the log says more"}, status_code=500)
