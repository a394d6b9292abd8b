"""Decoding of requests as defined in `twopc.sim.explore.wire`; a refusal names the place of the error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from twopc.errors import ConfigurationError
from twopc.sim.scenario.scenario_files import BYTES_MAX as TEXT_BYTES_MAX

#: Maximum length of a body: except for control characters, a text is at most twice as long in JSON.
BYTES_MAX = 2 * TEXT_BYTES_MAX + 100_000

RequestT = TypeVar("RequestT")


class RequestError(ConfigurationError):
    """A request does not have the form that `twopc.sim.explore.wire` defines."""


class RequestDecoder(Generic[RequestT]):
    """Decoder for one kind of request.

    Args:
        kind: type of the request, a `TypedDict`; unknown keys are dropped.
    """

    def __init__(self, kind: type[RequestT]) -> None:
        self._adapter: TypeAdapter[RequestT] = TypeAdapter(kind)

    def decode(self, raw: bytes) -> RequestT:
        """Decode the body of a request.

        Raises:
            RequestError: the body is no JSON, nested too deeply, no Unicode, or of another shape.
        """
        try:
            return self._adapter.validate_json(raw, strict=True)
        except ValidationError as error:
            raise RequestError(_first(error)) from error

    def of_query(self, values: Mapping[str, str]) -> RequestT:
        """Decode the query of a URL. Raises as `decode`."""
        try:
            return self._adapter.validate_strings(dict(values))
        except ValidationError as error:
            raise RequestError(_first(error)) from error


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
