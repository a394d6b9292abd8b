"""Where scenarios can be played, by name.

A theatre's module is imported when the theatre is wanted and not before.
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
    """What somebody has said about where to play; each theatre takes what concerns it."""

    pg: str = ""
    """Which PostgreSQL, as `twopc.server.choose`."""
    servers: str = "one"
    dsns: Mapping[str, str] = field(default_factory=dict)
    keep: bool = False
    seed: int | None = None
    """Of all chance; None: as the scenario says."""
    ahead: ServerAhead | None = None
    """The server of all cases, if it was begun to start it already."""


def _postgres(options: TheatreOptions) -> Theatre:
    from twopc.sim.scenario.postgres_theatre import PostgresTheatre  # psycopg and the servers

    return PostgresTheatre(
        pg=options.pg,
        servers=options.servers,
        dsns=options.dsns,
        keep=options.keep,
        ahead=options.ahead,
    )


def _model(options: TheatreOptions) -> Theatre:
    from twopc.sim.scenario.model_theatre import ModelTheatre  # simpy and the model

    return ModelTheatre(seed=options.seed, servers=options.servers)


THEATRES: dict[str, Callable[[TheatreOptions], Theatre]] = {
    "postgres": _postgres,
    "model": _model,
}
#: Said instead of a theatre's name: on real servers and on the model, to be compared.
BOTH = "both"
#: Those whose time is not the world's.
VIRTUAL = frozenset({"model"})


def played(name: str, work: Coroutine[Any, Any, T]) -> T:
    """Run what plays on a theatre, on an event loop whose time is that theatre's."""
    if name not in VIRTUAL:
        return asyncio.run(work)
    from twopc.sim.model.loop import VirtualLoop  # likewise

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def standing_still() -> AbstractContextManager[None]:
    """Within the block virtual time does not pass: somebody thinks. Other time cannot be stopped."""
    still = getattr(asyncio.get_running_loop(), "standing_still", None)
    return nullcontext() if still is None else still()


def theatre(name: str, options: TheatreOptions) -> Theatre:
    """The theatre of that name.

    Raises:
        ConfigurationError: there is none, or it cannot be made so.
    """
    if name not in THEATRES:
        raise ConfigurationError(f"there is no stage '{name}'; there is {', '.join(THEATRES)}")
    return THEATRES[name](options)
