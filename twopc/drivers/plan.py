"""Transaction plans: options of the application, validated once and kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from twopc.drivers.lean import Lean
from twopc.drivers.server_sessions import Introduction, ServerSessions
from twopc.drivers.sessions import LinkedSession, Sessions
from twopc.errors import ConfigurationError
from twopc.protocol import VARIANTS, Settings
from twopc.together import together

_ISOLATION = ("read committed", "repeatable read", "serializable")
SHIPPING = ("eager", "lazy")

#: The application is answered when it can see its changes at both nodes. Both get the commit at once, the
#: Publisher first: a client that has seen the changes at the Subscriber and finds the Publisher's row still locked
#: waits there briefly.
SETTINGS = {
    name: Settings(variant=variant.on_postgres(), answer_early=False, finish_in_turn=False)
    for name, variant in VARIANTS.items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionPlan:
    """Settings derived from the options of an application; see `PostgresCoordinator.transaction`."""

    subscriber: str
    variant: str
    settings: Settings
    pool: Sessions
    isolation: str | None
    tail: str
    begin_results: int
    """Number of results of `begin`."""

    def begin(
        self, gid: str, prove: Callable[[str, str, int], str], session: LinkedSession
    ) -> bytes:
        """Return the statements that begin the global transaction `gid` in a session; for `prove` see
        `twopc.proof`.

        RESET ALL undoes settings of an earlier transaction, including undetected ones. It is part of the
        transaction that BEGIN continues, whose isolation and modes the earlier transaction may also have set, so
        BEGIN names them all.
        """
        isolation = self.isolation or session.isolation
        return (
            f"reset all; begin isolation level {isolation}{session.modes}; set local msrepl.gid = '{gid}';"
            f" set local msrepl.proof = '{prove('begin', gid, session.pid)}'{self.tail}"
        ).encode()


def plan_of(
    pool: Sessions, *, isolation: str | None, shipping: str, commit: str
) -> TransactionPlan:
    """Return the plan for validated options."""
    lazy = shipping == "lazy"
    return TransactionPlan(
        subscriber=pool.subscriber,
        variant=commit,
        settings=SETTINGS[commit],
        pool=pool,
        isolation=isolation,
        tail="; set local msrepl.shipping = 'lazy'" if lazy else "",
        begin_results=5 if lazy else 4,
    )


class TransactionPlans:
    """The plans of a coordinator's transactions, and the session pools that they use.

    Args:
        applications: connection strings for applications, by Subscriber.
        introductions: introductions of the coordinator, by Subscriber.
        lock_timeout_ms: how long a statement may wait for a lock at a Subscriber.
        busy: see `twopc.drivers.lean`.
    """

    def __init__(
        self,
        applications: Mapping[str, str],
        introductions: Mapping[str, Introduction],
        *,
        lock_timeout_ms: int,
        busy: set[Lean],
    ) -> None:
        self._applications = applications
        self._introductions = introductions
        self._lock_timeout_ms = lock_timeout_ms
        self._busy = busy
        self._plans: dict[tuple[str | None, ...], TransactionPlan] = {}
        self._pools: dict[tuple[str, str], ServerSessions] = {}

    def of(
        self, subscriber: str, isolation: str | None, shipping: str, commit: str, role: str | None
    ) -> TransactionPlan:
        """Return the plan for these options.

        Raises:
            ConfigurationError: the Subscriber or an option does not exist.
        """
        key = (subscriber, isolation, shipping, commit, role)
        plan = self._plans.get(key)
        if plan is None:
            for name, value, known in (
                ("isolation", isolation or _ISOLATION[0], _ISOLATION),
                ("shipping", shipping, SHIPPING),
                ("commit", commit, tuple(SETTINGS)),
            ):
                if value not in known:
                    raise ConfigurationError(f"{name}={value!r}: use one of {', '.join(known)}")
            plan = self._plans[key] = plan_of(
                self._pool(subscriber, role or ""),
                isolation=isolation,
                shipping=shipping,
                commit=commit,
            )
        return plan

    async def close(self) -> None:
        """Close the sessions that are not in use, and the others when they are given back."""
        await together(*(pool.close() for pool in self._pools.values()))

    def _pool(self, subscriber: str, role: str) -> ServerSessions:
        pool = self._pools.get((subscriber, role))
        if pool is None:
            dsn = self._applications.get(subscriber)
            if dsn is None:
                raise ConfigurationError(
                    f"no Subscriber {subscriber!r}; there are: {', '.join(self._applications)}"
                )
            pool = self._pools[subscriber, role] = ServerSessions(
                subscriber,
                dsn,
                role,
                self._introductions[subscriber],
                lock_timeout_ms=self._lock_timeout_ms,
                busy=self._busy,
            )
        return pool
