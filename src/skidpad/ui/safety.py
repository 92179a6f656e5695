"""What stands before every request: only this machine's own page may ask, and nothing it shows may reach out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from starlette.responses import PlainTextResponse

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

HOSTS = frozenset({"127.0.0.1", "localhost"})
MAX_BODY_BYTES = 16 << 10
POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
FOREIGN_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; sandbox"
"""For files in a run's folder, e.g. its report and its films: they may show themselves and do nothing."""

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class Safety:
    """Wraps the application.

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
