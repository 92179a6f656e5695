"""The page as an application: routes, safety, and errors that say what to do."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException

from skidpad.core.errors import BadRunError, SkidpadError, UnknownNameError
from skidpad.kinds.kind import KINDS
from skidpad.page.wording import plain
from skidpad.ui.list_pages import list_routes, study_routes
from skidpad.ui.rows import FAILURES
from skidpad.ui.run_pages import run_routes
from skidpad.ui.views import page, static_file

if TYPE_CHECKING:
    from skidpad.ui.library import Library
    from skidpad.ui.study import Study


Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

HOST = "127.0.0.1"
HOSTS = frozenset({HOST, "localhost"})
MAX_BODY_BYTES = 16 << 10
POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


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


class Safety:
    """Stands before every request: only this machine's own page may ask, and nothing it shows may reach out.

    Host: a name that merely resolves to this machine (DNS rebinding) is refused. Origin: what changes something must come from a page
    of the same origin (cross-site request forgery). Body: at most MAX_BODY_BYTES. Headers: a policy that fetches nothing from outside.
    """

    def __init__(self, app: App, hosts: frozenset[str] = HOSTS) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuses, or passes on and adds the headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        answering: App = refusal if refusal is not None else self._app
        await answering(scope, _limited(receive), _guarded(send))

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> PlainTextResponse | None:
        host = headers.get("host", "")
        if _hostname(host) not in self._hosts:
            return PlainTextResponse("This page answers only to 127.0.0.1 and localhost; open it under that address.", 421)
        if scope["method"] in {"GET", "HEAD"}:
            return None
        if headers.get("origin", "") != f"http://{host}" or headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return PlainTextResponse("Only this page itself may change something; the request came from elsewhere.", 403)
        length = headers.get("content-length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 10) or int(length) > MAX_BODY_BYTES:
            return PlainTextResponse(f"A request has at most {MAX_BODY_BYTES} bytes and says how many.", 413)
        return None


def _hostname(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name.lower() if colon and port.isdigit() else host.lower()


def _limited(receive: Receive) -> Receive:
    taken = 0

    async def limited() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        # The server holds a client to its content-length; this is for one that does not.
        return {"type": "http.disconnect"} if taken > MAX_BODY_BYTES else message

    return limited


def _guarded(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message["headers"]}
            own = [] if b"content-security-policy" in names else [(b"content-security-policy", POLICY.encode())]
            cache = [] if b"cache-control" in names else [(b"cache-control", b"no-store")]
            message = {**message, "headers": [*message["headers"], *_HEADERS, *own, *cache]}
        await send(message)

    return guarded
