"""Decoding of requests as defined in `twopc.sim.explore.wire`; a refusal names the place of the error."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request

from twopc.errors import ConfigurationError
from twopc.sim.explore.wire.files import CheckRequest, LessonQuery, SaveRequest
from twopc.sim.explore.wire.runs import ExportRequest, OrdersRequest, PlayRequest
from twopc.sim.scenario.scenario_files import BYTES_MAX as TEXT_BYTES_MAX

#: Maximum length of a body: except for control characters, a text is at most twice as long in JSON.
_BYTES_MAX = 2 * TEXT_BYTES_MAX + 100_000

RequestT = TypeVar("RequestT")
_ADAPTERS: dict[Any, TypeAdapter[Any]] = {
    kind: TypeAdapter(kind)
    for kind in (CheckRequest, SaveRequest, PlayRequest, OrdersRequest, ExportRequest, LessonQuery)
}


class RequestError(ConfigurationError):
    """A request does not have the form that `twopc.sim.explore.wire` defines."""


async def body_of(request: Request, kind: type[RequestT]) -> RequestT:
    """Return the body of a request.

    Args:
        kind: type of the request, a `TypedDict`; unknown keys are dropped.

    Raises:
        RequestError: the body is too long, no JSON, nested too deeply, no Unicode, or of another shape.
    """
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise RequestError("a request's body is JSON, and says so in its Content-Type")
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > _BYTES_MAX:
            raise RequestError(f"a request is no longer than {_BYTES_MAX} bytes")
    try:
        value: RequestT = _ADAPTERS[kind].validate_json(bytes(raw), strict=True)
    except ValidationError as error:
        raise RequestError(_first(error)) from error
    return value


def query_of(request: Request, kind: type[RequestT]) -> RequestT:
    """Return the query of a request's URL; see `body_of`."""
    try:
        value: RequestT = _ADAPTERS[kind].validate_strings(dict(request.query_params))
    except ValidationError as error:
        raise RequestError(_first(error)) from error
    return value


def _first(error: ValidationError) -> str:
    """Return the errors at the first invalid place, which may allow several types."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    place = _place(problems[0]["loc"])
    messages = [each["msg"] for each in problems if _place(each["loc"]) == place]
    return f"{place}: {'; '.join(dict.fromkeys(messages))}"


def _place(loc: tuple[str | int, ...]) -> str:
    """Return ``'order.0' of the request``, without type names that pydantic inserts for alternatives."""
    parts = [str(part) for part in loc if isinstance(part, int) or part.isidentifier()]
    parts = [part for part in parts if part not in ("str", "dict")]
    return f"'{'.'.join(parts)}' of the request" if parts else "the request"
