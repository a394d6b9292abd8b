"""Access control: a request needs the link's token and must come from a page of this server.

A page of another host in the same browser cannot send requests (it has no token, and its Origin differs), nor pass
for this server under a name that resolves to it (the Host must be the address).
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from twopc.sim.explore.wire import TOKEN_HEADER

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Limits what a page may load, and where it may send requests, to this server.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class RequestGuard:
    """Passes a request on or refuses it, and adds the security headers to every answer.

    Args:
        port: port of the server.
        token: token of the link.
    """

    def __init__(self, application: Application, port: int, token: str) -> None:
        self._application = application
        self._token = token.encode()
        self._hosts = {f"127.0.0.1:{port}".encode(), f"localhost:{port}".encode()}
        self._origins = {b"http://" + host for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, as an ASGI application."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        why = self._why_not(scope)

        async def answer(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in _HEADERS}
                others = [each for each in message.get("headers", ()) if each[0] not in own]
                message["headers"] = [*others, *_HEADERS]
            await send(message)

        if why is None:
            await self._application(scope, receive, answer)
            return
        status, kind, text = why
        body = json.dumps({"error": text, "kind": kind}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        await answer({"type": "http.response.start", "status": status, "headers": headers})
        await answer({"type": "http.response.body", "body": body})

    def _why_not(self, scope: Scope) -> tuple[int, str, str] | None:
        every = [(name.lower(), value) for name, value in scope["headers"]]
        headers = dict(every)
        if [value for name, value in every if name == b"host"] != [headers.get(b"host")] or (
            headers.get(b"host") not in self._hosts
        ):
            return 421, "origin", "this server answers under its own address only: open the link"
        origin = headers.get(b"origin")
        if origin is not None and origin not in self._origins:
            return 403, "origin", "this is not a page of this server: open the link"
        if not scope["path"].startswith("/api/"):
            return None
        if headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site"):
            return 403, "origin", "this is not a page of this server: open the link"
        given = headers.get(TOKEN_HEADER.lower().encode(), b"")
        if not hmac.compare_digest(given, self._token):
            return 403, "token", "the link is not of this server: open the one that it has printed"
        return None
