"""Requests as `twopc.sim.explore.wire` says, read from their bytes; what is otherwise is refused with its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from twopc.errors import ConfigurationError
from twopc.sim.scenario.scenario_files import BYTES_MAX as TEXT_BYTES_MAX

#: Of a request's body: a text is at most twice as long in JSON, but for control characters.
BYTES_MAX = 2 * TEXT_BYTES_MAX + 100_000

RequestT = TypeVar("RequestT")


class RequestError(ConfigurationError):
    """A request is not as `twopc.sim.explore.wire` says."""


class RequestDecoder(Generic[RequestT]):
    """Reads the requests of one kind.

    Args:
        kind: their type, a `TypedDict`; keys that it does not have are left out.
    """

    def __init__(self, kind: type[RequestT]) -> None:
        self._adapter: TypeAdapter[RequestT] = TypeAdapter(kind)

    def decode(self, raw: bytes) -> RequestT:
        """A request's body.

        Raises:
            RequestError: it is no JSON, nested too deeply, no Unicode, or of another shape.
        """
        try:
            return self._adapter.validate_json(raw, strict=True)
        except ValidationError as error:
            raise RequestError(_first(error)) from error

    def of_query(self, values: Mapping[str, str]) -> RequestT:
        """What stands behind a path. Raises as `decode`."""
        try:
            return self._adapter.validate_strings(dict(values))
        except ValidationError as error:
            raise RequestError(_first(error)) from error


def _first(error: ValidationError) -> str:
    """What is wrong at the first place where something is; a place may be allowed to be of several types."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    place = _place(problems[0]["loc"])
    messages = [each["msg"] for each in problems if _place(each["loc"]) == place]
    return f"{place}: {'; '.join(dict.fromkeys(messages))}"


def _place(loc: tuple[str | int, ...]) -> str:
    """``'order.0' of the request``; without the name of a type, by which pydantic calls one of several."""
    parts = [str(part) for part in loc if isinstance(part, int) or part.isidentifier()]
    parts = [part for part in parts if part not in ("str", "dict")]
    return f"'{'.'.join(parts)}' of the request" if parts else "the request"
