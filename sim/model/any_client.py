"""Any client of a Subscriber in virtual time, and the resolver that finishes what it has decided.

The meaning of subscriber/sql/{begin_any_client,refuse_unprepared}.sql and of `twopc.drivers.resolver`: the client's own
COMMIT prepares the Publisher's branch, and with its marker in it is the decision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

import psycopg
import simpy

from sim.model.clients import PublisherClient
from sim.model.coordinator import Place
from sim.model.log_client import ModelDecided
from sim.model.node import ModelNode
from sim.model.node.tx import OpenTx
from sim.model.words import Cause, Label, SqlError, Steps
from twopc.drivers.points import Points
from twopc.drivers.virtual import steps
from twopc.errors import conflict_facts
from twopc.names import PREFIX, branch_gid
from twopc.protocol.effects import Outcome
from twopc.waits import link_name

#: How often it is looked while a client commits, and otherwise while something of one is there.
_PACE_S = 0.001
_SWEEP_S = 0.25
#: For how long a client's end waits for what it has at the Publisher.
_ENDED_S = 10.0
_MARK = "msrepl.any_client"


class AnyClients:
    """Of one Subscriber: names for its clients' transactions, and their resolver.

    Args:
        coordinator: in whose name they begin.
        epoch: theirs alone, of the variant ``last_agent``.
    """

    def __init__(self, place: Place, subscriber: str, coordinator: str, epoch: int) -> None:
        self._place = place
        self._kernel = place.kernel
        self.here: ModelNode = place.nodes[subscriber]
        self.there: ModelNode = place.nodes[place.publisher]
        self._prefix = f"{PREFIX}:{coordinator}:{epoch}:"
        self._actor = f"resolver:{subscriber}"
        self._sites = {
            one: place.wiring.site(place.nodes[one], place.network, self._actor, self._actor)
            for one in place.nodes
        }
        self._recovery = place.wiring.recovery(
            coordinator,
            publisher=place.publisher,
            participants=self._sites,
            decisions=ModelDecided(
                place.ledger, place.network, self._actor, place.log_at, self._actor
            ),
            points=Points(),
            retention_s=math.inf,
        )
        self._numbers = count(1)
        self._seen: set[str] = set()
        self._ending: set[str] = set()
        """Branches whose client was committing when it was looked last."""
        self._processes: dict[str, simpy.Process] = {}

    # -- for the Subscriber's triggers ---------------------------------------------------------------

    def begin(self, tx: OpenTx) -> str:
        """``msrepl.begin_any_client``: the transaction's name."""
        gid = f"{self._prefix}{next(self._numbers)}"
        tx.set("msrepl.gid", gid, local=True)
        tx.set(_MARK, "yes", local=True)
        self._wake(self._sweeping)
        return gid

    def ends(self, gid: str) -> None:
        """The Publisher's branch is about to be prepared, and its decision to be made."""
        self._ending.add(branch_gid(gid, self.there.name))
        self._wake(self._watching)

    # -- the resolver --------------------------------------------------------------------------------

    def _wake(self, work: Callable[[], Steps[None]]) -> None:
        process = self._processes.get(work.__name__)
        if process is None or not process.is_alive:
            self._processes[work.__name__] = self._kernel.spawn(work(), self._actor)

    def _watching(self) -> Steps[None]:
        """Finish what is decided, until nothing is about to be."""
        while self._ending:
            with suppress(psycopg.Error):  # it is tried again
                yield from self._finish()
            yield from self._pause(_PACE_S)

    def _sweeping(self) -> Steps[None]:
        """Look from time to time, as long as anything of a client is there."""
        while self._left():
            with suppress(psycopg.Error):
                yield from self._sweep()
            yield from self._pause(_SWEEP_S)

    def _pause(self, seconds: float) -> Steps[None]:
        label = Label(actor=self._actor, cause=Cause.POLL, what="resolver")
        yield self._kernel.delay(seconds, label)

    def _left(self) -> bool:
        return (
            any(gid.startswith(self._prefix) for gid in self.there.branches)
            or any(one.tx is not None and is_any(one.tx) for one in self.here.sessions.values())
            or bool(self.left_links())
        )

    def _finish(self) -> Steps[None]:
        """Commit what is decided: prepared at the Publisher, with a marker at the Subscriber."""
        publisher = self._sites[self.there.name]
        prepared = yield from steps(publisher.prepared(self._prefix))
        ours: Mapping[str, str] = {
            branch_gid(gid.rpartition(":")[0], self.here.name): gid for gid in prepared
        }
        markers: Mapping[str, bool] = {}
        if ours:
            markers = yield from steps(self._sites[self.here.name].markers([*ours]))
        for own, fence in markers.items():
            gid = ours[own]
            if not fence:
                yield from steps(publisher.finish(gid, prepared[gid].owner, Outcome.COMMITTED))
                self._ending.discard(gid)
        committing = {
            branch_gid(one.tx.setting("msrepl.gid") or "", self.there.name)
            for one in self.here.sessions.values()
            if one.tx is not None and one.tx.ending
        }
        self._ending &= committing | {*prepared}

    def _sweep(self) -> Steps[None]:
        """Settle what was prepared the last time already; end links whose sessions have nothing open."""
        publisher = self._sites[self.there.name]
        prepared = {*(yield from steps(publisher.prepared(self._prefix)))}
        if prepared & self._seen:
            yield from steps(self._recovery.run())
        self._seen = prepared
        left = self.left_links()
        if left:
            yield from steps(publisher.end_links(self.here.name, left))

    def left_links(self) -> list[int]:
        """Processes at the Subscriber without a transaction whose links have one at the Publisher."""
        open_ = {one.pid for one in self.here.sessions.values() if one.tx is not None}
        names = {link_name(self.here.name, one.pid): one.pid for one in self.here.sessions.values()}
        return [
            names[one.application_name]
            for one in self.there.sessions.values()
            if one.tx is not None
            and one.application_name in names
            and names[one.application_name] not in open_
        ]


def is_any(tx: OpenTx) -> bool:
    """The transaction is any client's."""
    return tx.setting(_MARK) == "yes"


class AnyClient(PublisherClient):
    """A client of its own at a Subscriber: what it says is sent as it is.

    Its end returns when the resolver has ended what it has at the Publisher, as that of a scenario's session on
    real servers does.
    """

    gid = ""
    settles = "the resolver finishes what was decided"

    def __init__(self, name: str, clients: AnyClients, network: Any) -> None:
        super().__init__(name, clients.here, network)
        self._clients = clients

    def begin(self, level: str = "read committed", role: str = "") -> Steps[None]:
        """Begin a transaction. RejectedError"""
        self.gid = ""
        yield from super().begin(level, role)

    def commit(self) -> Steps[None]:
        """Commit. RejectedError, InDoubtError"""
        there, tx = self._clients.there, self._session.tx if self._wire is not None else None
        self.gid = (tx.setting("msrepl.gid") if tx is not None else "") or ""
        yield from super().commit()
        branch = branch_gid(self.gid, there.name)
        yield from self._until(lambda: not self.gid or branch not in there.branches)

    def rollback(self) -> Steps[None]:
        """Roll back."""
        pid = self.pid
        yield from super().rollback()
        yield from self._until(lambda: pid not in self._clients.left_links())

    def raised_at(self, error: SqlError) -> str:
        over = "dblink" in error.context or conflict_facts(error.detail) is not None
        return self._clients.there.name if over else self.node

    def _until(self, over: Any) -> Steps[None]:
        kernel = self._network.kernel
        until = kernel.now + _ENDED_S
        label = Label(actor=f"client:{self.name}", cause=Cause.POLL, what="wait for the resolver")
        while not over() and kernel.now < until:
            yield kernel.delay(_PACE_S, label)
