"""Requests to the server: each is checked, passed to the folder or to a worker, and answered.

See `twopc.sim.explore.wire`. This module plays and reads no scenario.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from twopc.sim.explore.folder import (
    ChangedError,
    MissingError,
    OpenFolder,
    OutsideError,
    TooLongError,
    checked_name,
)
from twopc.sim.explore.pool import Worker, WorkerError, Workers
from twopc.sim.explore.requests import RequestError, body_of, query_of
from twopc.sim.explore.wire.files import (
    CheckRequest,
    FileListing,
    LessonQuery,
    Refusal,
    SaveRequest,
)
from twopc.sim.explore.wire.runs import ExportRequest, OrdersRequest, PlayRequest

PAGE = Path(__file__).parent / "page"
_SCHEMA = Path(__file__).parents[1] / "scenario" / "schema.json"
_STATUS = {"scenario": 422, "switch": 422, "stopped": 503, "died": 503, "server": 500, "path": 403, "missing": 404}  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Desk:
    """Folder and workers of one server, with a handler for each request."""

    folder: OpenFolder
    workers: Workers
    present: bool = False

    # -- requests ------------------------------------------------------------------------------------

    async def files(self, request: Request) -> Response:
        """``GET /api/files``"""
        if request.query_params.get("checked"):
            files = json.loads(await _while_wanted(request, self.workers.orders, "list", {}))
        else:
            files = await anyio.to_thread.run_sync(self.folder.glance)
        listing: FileListing = {
            "root": self.folder.name,
            "files": files,
            "present": self.present,
            "read_only": self.folder.read_only,
        }
        return JSONResponse(listing)

    async def file(self, request: Request) -> Response:
        """``GET /api/file``"""
        path = request.query_params.get("path", "")
        text = await anyio.to_thread.run_sync(self.folder.read, path)
        values = {"path": path, "text": text}
        return _json(await _while_wanted(request, self.workers.play, "describe", values))

    async def check(self, request: Request) -> Response:
        """``POST /api/check``"""
        values = await body_of(request, CheckRequest)
        checked_name(values["path"])
        return _json(await _while_wanted(request, self.workers.play, "describe", values))

    async def save(self, request: Request) -> Response:
        """``PUT /api/file``"""
        asked = await body_of(request, SaveRequest)
        path, text, base = asked["path"], asked["text"], asked["base_version"]
        return JSONResponse(await anyio.to_thread.run_sync(self.folder.save, path, text, base))

    async def play(self, request: Request) -> Response:
        """``POST /api/play``"""
        values = await self._with_text(await body_of(request, PlayRequest))
        return _json(await _while_wanted(request, self.workers.play, "play", values))

    async def postgres(self, request: Request) -> Response:
        """``POST /api/postgres``"""
        values = await self._with_text(await body_of(request, PlayRequest))
        return _json(await _while_wanted(request, self.workers.postgres, "play", values))

    async def orders(self, request: Request) -> Response:
        """``POST /api/orders``"""
        values = await self._with_text(await body_of(request, OrdersRequest))
        return StreamingResponse(
            _events(self.workers.orders, "orders", values), media_type="text/event-stream"
        )

    async def schema(self, _: Request) -> Response:
        """``GET /api/schema``"""
        return _json(await anyio.to_thread.run_sync(_SCHEMA.read_bytes))

    async def templates(self, request: Request) -> Response:
        """``GET /api/templates``"""
        return _json(await _while_wanted(request, self.workers.play, "templates", {}))

    async def export(self, request: Request) -> Response:
        """``POST /api/export``"""
        asked = await body_of(request, ExportRequest)
        values = await self._with_text(asked)
        made = await _while_wanted(request, self.workers.play, "export", values)
        if asked["kind"] != "link":
            return _json(made)
        link = json.loads(made)
        return JSONResponse({**link, "text": f"{request.base_url}{link['text']}"})

    async def lessons(self, request: Request) -> Response:
        """``GET /api/lessons``"""
        return _json(await _while_wanted(request, self.workers.play, "lessons", {}))

    async def lesson_answer(self, request: Request) -> Response:
        """``GET /api/lessons/answer``"""
        values = query_of(request, LessonQuery)
        return _json(await _while_wanted(request, self.workers.play, "lesson_answer", values))

    async def _with_text(
        self, asked: PlayRequest | OrdersRequest | ExportRequest
    ) -> Mapping[str, Any]:
        """Return a request with its text: the one that was sent, or that of the saved file."""
        path, text = asked["path"], asked.get("text")
        if text is None:
            text = await anyio.to_thread.run_sync(self.folder.read, path)
        else:
            checked_name(path)
        return {**asked, "text": text}


def application(desk: Desk) -> Starlette:
    """Return the application, without access control; the caller ends the workers."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await desk.workers.play.warm()
        yield

    def route(path: str, method: str, handler: Callable[[Request], Awaitable[Response]]) -> Route:
        return Route(path, _answering(handler), methods=[method])

    return Starlette(
        routes=[
            route("/api/files", "GET", desk.files),
            route("/api/file", "GET", desk.file),
            route("/api/file", "PUT", desk.save),
            route("/api/check", "POST", desk.check),
            route("/api/play", "POST", desk.play),
            route("/api/postgres", "POST", desk.postgres),
            route("/api/orders", "POST", desk.orders),
            route("/api/schema", "GET", desk.schema),
            route("/api/templates", "GET", desk.templates),
            route("/api/export", "POST", desk.export),
            route("/api/lessons", "GET", desk.lessons),
            route("/api/lessons/answer", "GET", desk.lesson_answer),
            Mount("/", StaticFiles(directory=PAGE, html=True, check_dir=False)),
        ],
        lifespan=lifespan,
        exception_handlers={HTTPException: _http},
    )


def _answering(
    handler: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler that also turns errors into answers."""

    @wraps(handler)
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except RequestError as error:
            return _refused(400, {"error": str(error), "kind": "request"})
        except OutsideError as error:
            return _refused(403, {"error": str(error), "kind": "path"})
        except TooLongError as error:
            return _refused(413, {"error": str(error), "kind": "request"})
        except MissingError as error:
            return _refused(404, {"error": str(error), "kind": "missing"})
        except ChangedError as error:
            return _refused(409, {"error": str(error), "kind": "changed", "version": error.version})
        except WorkerError as error:
            return _refused(_STATUS.get(error.refusal["kind"], 500), error.refusal)

    return answer


async def _http(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _refused(status, {"error": "there is nothing here", "kind": "missing"})


def _refused(status: int, refusal: Refusal) -> Response:
    return JSONResponse(refusal, status_code=status)


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


async def _events(worker: Worker, do: str, values: Mapping[str, Any]) -> AsyncIterator[bytes]:
    """Yield a worker's events as server-sent events; a client that disconnects stops the job."""
    try:
        async for _, body in worker.parts(do, values):
            name = json.loads(body)["event"]
            yield b"event: " + name.encode() + b"\ndata: " + body + b"\n\n"
    except WorkerError as error:
        is_stopped = error.refusal["kind"] == "stopped"
        event = {
            "event": "done" if is_stopped else "failed",
            "orders": 0,
            "run": 0,
            "infeasible": 0,
            "left_out": 0,
            "why": "stopped" if is_stopped else str(error),
        }
        yield f"event: {event['event']}\ndata: {json.dumps(event)}\n\n".encode()


async def _while_wanted(
    request: Request, worker: Worker, do: str, values: Mapping[str, Any]
) -> bytes:
    """Have a worker do a job; stop it if the client disconnects meanwhile."""
    asking = asyncio.create_task(worker.ask(do, values))

    async def look() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass  # ignored: the body has been read
        asking.cancel()

    looking = asyncio.create_task(look())
    try:
        return await asking
    except asyncio.CancelledError:
        asking.cancel()
        raise WorkerError({"error": "the client has disconnected", "kind": "stopped"}) from None
    finally:
        looking.cancel()
