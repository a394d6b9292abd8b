"""Theatres in which scenarios can be played, by name.

The module of a theatre is imported only when the theatre is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from twopc.errors import ConfigurationError
from twopc.sim.scenario.stage import Theatre

if TYPE_CHECKING:
    from twopc.server.early_start import ServerAhead

__all__ = ["BOTH", "THEATRES", "VIRTUAL", "TheatreOptions", "played", "standing_still", "theatre"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TheatreOptions:
    """Options for all theatres; each theatre uses those that apply to it."""

    pg: str = ""
    """The PostgreSQL to use, as in `twopc.server.choose`."""
    servers: str = "one"
    dsns: Mapping[str, str] = field(default_factory=dict)
    keep: bool = False
    seed: int | None = None
    """Seed of all random values; None: that of the scenario."""
    ahead: ServerAhead | None = None
    """The server for all cases, if its start has already begun."""


def _postgres(options: TheatreOptions) -> Theatre:
    from twopc.sim.scenario.postgres_theatre import PostgresTheatre  # imports psycopg

    return PostgresTheatre(
        pg=options.pg,
        servers=options.servers,
        dsns=options.dsns,
        keep=options.keep,
        ahead=options.ahead,
    )


def _model(options: TheatreOptions) -> Theatre:
    from twopc.sim.scenario.model_theatre import ModelTheatre  # imports simpy and the model

    return ModelTheatre(seed=options.seed, servers=options.servers)


THEATRES: dict[str, Callable[[TheatreOptions], Theatre]] = {
    "postgres": _postgres,
    "model": _model,
}
#: Name that selects both real servers and the model, to compare them.
BOTH = "both"
#: Theatres that use virtual time.
VIRTUAL = frozenset({"model"})


def played(name: str, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that plays in a theatre, on an event loop with that theatre's time."""
    if name not in VIRTUAL:
        return asyncio.run(work)
    from twopc.sim.model.loop import VirtualLoop  # imports simpy and the model

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def standing_still() -> AbstractContextManager[None]:
    """Return a context manager within which virtual time does not pass, for the time of a user's input. Real time
    is not affected.
    """
    still = getattr(asyncio.get_running_loop(), "standing_still", None)
    return nullcontext() if still is None else still()


def theatre(name: str, options: TheatreOptions) -> Theatre:
    """Return the theatre of a name.

    Raises:
        ConfigurationError: there is none, or its options are not valid.
    """
    if name not in THEATRES:
        raise ConfigurationError(f"there is no stage '{name}'; there is {', '.join(THEATRES)}")
    return THEATRES[name](options)
