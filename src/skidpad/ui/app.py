"""The page as an application: routes, safety, and errors that say what to do."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException

from skidpad.core.errors import BadRunError, SkidpadError, UnknownNameError
from skidpad.kinds.kind import KINDS
from skidpad.page.wording import plain
from skidpad.ui.list_pages import list_routes, study_routes
from skidpad.ui.rows import FAILURES
from skidpad.ui.run_pages import run_routes
from skidpad.ui.safety import Safety
from skidpad.ui.views import page, static_file

if TYPE_CHECKING:
    from skidpad.ui.library import Library
    from skidpad.ui.study import Study


def make_app(library: Library, study: Study | None = None) -> FastAPI:
    """Makes the application over a library of runs, with a questionnaire where there is one."""
    KINDS.names()  # imported now, so that the first screen need not wait for it

    @asynccontextmanager
    async def life(_app: FastAPI) -> AsyncIterator[None]:
        yield
        library.close()

    # The generated documentation would fetch scripts from elsewhere.
    app = FastAPI(title="skidpad", docs_url=None, redoc_url=None, openapi_url=None, lifespan=life)
    app.add_middleware(Safety)
    app.include_router(list_routes(library))
    app.include_router(run_routes(library))
    app.include_router(study_routes(study))

    @app.get("/static/{name}")
    def show_static(name: str) -> Response:
        found = static_file(name)
        if found is None:
            raise UnknownNameError("no such file belongs to the page")
        return found

    app.add_exception_handler(SkidpadError, _told)
    for failure in FAILURES:
        app.add_exception_handler(failure, _unreadable)
    app.add_exception_handler(HTTPException, _not_there)
    app.add_exception_handler(RequestValidationError, _not_there)
    return app


async def _told(_request: Request, error: Exception) -> HTMLResponse:
    status = 404 if isinstance(error, UnknownNameError) else 422 if isinstance(error, BadRunError) else 400
    return page("error.jinja", status, title="This cannot be shown", message=plain(str(error), 800))


async def _unreadable(_request: Request, error: Exception) -> HTMLResponse:
    return page("error.jinja", 422, title="This cannot be shown", message=plain(f"the records cannot be read: {error}", 800))


async def _not_there(_request: Request, error: Exception) -> HTMLResponse:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return page("error.jinja", status, title="There is no such page", message="Go back to the list of runs.")


HOST = "127.0.0.1"


def bound_socket(port: int) -> socket.socket:
    """Takes a port of this machine's own address, any free one for 0; who asks before the server runs is kept waiting, not refused."""
    taken = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((HOST, port))
        taken.listen()
    except (OSError, OverflowError) as error:
        taken.close()
        raise SkidpadError(f"cannot listen on {HOST}:{port}: {error}; choose another --port, or 0 for any that is free") from error
    return taken


def server_of(app: FastAPI) -> uvicorn.Server:
    """Returns a quiet server for the application."""
    return uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=2))
