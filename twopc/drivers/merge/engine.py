"""The engine of a merge session: the Subscriber's changes are uploaded, then the Publisher's downloaded (seed 001).

The same code for servers and for virtual time, above `MergeEndPort`. Each slice is one commit at the node that
receives it. A session that ends early is continued by the next, which begins at the lower of the marks; a row that
arrives twice is recognised by its lineage.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TypeVar
from uuid import UUID

import psycopg

from twopc.drivers.merge.article_resolver import resolver_of
from twopc.drivers.merge.ports import MergeEndPort, SessionArticle, SliceOutcome
from twopc.drivers.merge.tally import SessionTally
from twopc.drivers.points import Points
from twopc.errors import MergeError
from twopc.merge.articles import Logging
from twopc.merge.encounters import MergeEncounter, Resolution, Row
from twopc.merge.handlers import MergeHandler
from twopc.merge.judge import Judge, judged
from twopc.merge.marks import Acquaintance, Generation, Marks, acquaintance, start
from twopc.merge.plan import (
    REPEATED_ROWS_MAX,
    MergeRow,
    Slice,
    in_order,
    is_repeated,
    ordered,
    slices,
)
from twopc.merge.protections import NOTHING_LEFT_OUT, MergeProtection
from twopc.merge.resolvers import MergeResolver
from twopc.merge.retention import check_age
from twopc.merge.schema_changes import SchemaMark, missing_steps
from twopc.together import together

T = TypeVar("T")

_LOST = "08006"

Ask = Callable[
    [MergeEncounter, Resolution | None], Resolution | Awaitable[Resolution | None] | None
]
"""Callback that gets a conflict, and the resolution proposed by handler or resolver (None for the default); returns
the resolution, or None.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReport:
    """Totals of a session."""

    uploaded: int = 0
    """Rows written at the Publisher."""
    downloaded: int = 0
    """Rows written at the Subscriber."""
    conflicts: int = 0
    """Conflicts detected, and resolved at the Publisher."""
    deferred: int = 0
    """Rows deferred at the Subscriber, because it has changed them since its upload; the next session uploads them.
    Rows deferred because their change has failed at the Publisher are in `retried`.
    """
    retried: int = 0
    """Rows that could not be written, at either node; the next session retries them."""
    resumed: bool = False
    """Whether an earlier session was interrupted."""
    rejected: int = 0
    """Changes that were rejected, and are undone where they were made: by a resolver or a handler, or because they
    failed and the article compensates for failures.
    """
    anew: bool = False
    """Whether a node was restored from a backup, so that all rows ever changed were compared."""


class MergeSession:
    """One session between a Publisher and one of its Subscribers.

    Args:
        handlers: the handler of each article, by the article's name.
        ask: called for each conflict, while no transaction is open.
        only_upload: whether to omit the download; a later session makes up for it.
        without: protections that are left out.
    """

    def __init__(
        self,
        publisher: MergeEndPort,
        subscriber: MergeEndPort,
        points: Points | None = None,
        *,
        handlers: Mapping[str, MergeHandler] = MappingProxyType({}),
        ask: Ask | None = None,
        only_upload: bool = False,
        without: Set[MergeProtection] = NOTHING_LEFT_OUT,
    ) -> None:
        self._publisher = publisher
        self._subscriber = subscriber
        self._points = points or Points()
        self._handlers = handlers
        self._ask = ask
        self._only_upload = only_upload
        self._without = without
        self._articles: Mapping[UUID, SessionArticle] = {}
        self._has_ranges = False
        self._resolvers: dict[UUID, MergeResolver] = {}
        self._settled: dict[UUID, dict[UUID, Row | None]] = defaultdict(dict)
        self._order: tuple[UUID, ...] = ()
        self._tally = SessionTally()
        self._refused: Collection[UUID] = ()
        """Rows that the Publisher could not write: the Subscriber's rows stay as they are."""

    async def run(self) -> MergeReport:
        """Upload, then download, unless only an upload is requested.

        Raises:
            MergeError: another agent works for this subscription (21036), it has expired (21072), a node has
                removed metadata that the other needs (21333), or the two are not those that have merged before; or
                a node could not be reached, or raised an error, and the next session continues.
        """
        publisher, subscriber = self._publisher, self._subscriber
        is_open = False
        try:
            await publisher.open(alone=True)
            # an agent that the Publisher has disconnected may still be writing here
            await subscriber.open(alone=True)
            is_open = True
            above, below = await self._greet()
            if await self._has_forgotten_ranges():
                await publisher.rewind()
                above, below = await self._greet()
            await self._refill_ranges()
            self._tally.is_resumed = _is_cut(below, above) or _is_cut(above, below)
            for handler in self._handlers.values():
                handler.session_begins(publisher.name, subscriber.name)
            up, _ = await self._propagate(subscriber, publisher, below, above, "upload")
            self._refused = up.failed.keys()
            down, generation = SliceOutcome(), None
            if not self._only_upload:
                down, generation = await self._propagate(
                    publisher, subscriber, above, below, "download"
                )
            await self._transfer_conflicts()
            for handler in self._handlers.values():
                handler.session_ends(publisher.name, subscriber.name)
            cleaned = await publisher.end(self._tally.record())
            await self._reach("cleaned")
            if generation is not None:
                await subscriber.settle(generation, cleaned)
        except psycopg.Error as error:
            if is_open:
                with suppress(psycopg.Error):
                    await publisher.end(self._tally.record(str(error)))
            raise MergeError(
                f"the session of {publisher.name} and {subscriber.name} ended early, and the next continues: {error}",
                sqlstate=error.sqlstate or _LOST,
            ) from error
        finally:
            try:
                await subscriber.close()
            finally:
                await publisher.close()
        return MergeReport(
            uploaded=up.applied,
            downloaded=down.applied,
            conflicts=up.conflicts,
            deferred=len(down.deferred),
            retried=len(up.failed) + len(down.failed),
            rejected=up.rejected + down.rejected,
            resumed=self._tally.is_resumed,
            anew=self._tally.is_anew,
        )

    async def _greet(self) -> tuple[Marks, Marks]:
        """Return the marks of Publisher and Subscriber, after checking that the two have merged before.

        A node that does not know one of its own generations which the other knows was restored from a backup.
        """
        ends = (self._publisher, self._subscriber)
        above, below = await together(*[end.marks() for end in ends])
        names = [end.name for end in ends]
        check_age(names[0], above, names[1], below)
        is_anew = False
        for end, marks, other, others_marks in (
            (self._publisher, above, self._subscriber, below),
            (self._subscriber, below, self._publisher, above),
        ):
            relation = acquaintance(end.name, marks, other.name, others_marks)
            is_forgotten = relation is Acquaintance.REWOUND or (
                relation is Acquaintance.SAME
                and MergeProtection.GUID_CHECK not in self._without
                and not all(
                    [await other.knows(generation) for generation in marks.neighbour_generations]
                )
            )
            if is_forgotten:
                await other.rewind()
            is_anew = is_anew or relation is not Acquaintance.SAME or is_forgotten
        if is_anew:
            for end, other in (ends, ends[::-1]):
                marks = await other.marks()
                await end.begin_anew(marks.replica, marks.cleaned)
            self._tally.is_anew = True
            above, below = await together(*[end.marks() for end in ends])
        await self._propagate_schema(above.schema, below.schema)
        articles, others = await together(*[end.articles() for end in ends])
        if articles.keys() != others.keys():
            raise MergeError(
                f"{names[0]} and {names[1]} do not merge the same tables: subscribe {names[1]} anew"
            )
        self._articles = articles
        self._has_ranges = MergeProtection.IDENTITY_RANGES not in self._without and any(
            article.has_ranges for article in articles.values()
        )
        self._resolvers = {
            artid: resolver_of(article.options.resolver, f"table {article.name}")
            for artid, article in articles.items()
            if article.options.resolver is not None
        }
        self._order = ordered({artid: article.parents for artid, article in articles.items()})
        if [each.replicas for each in below.servers] != [each.replicas for each in above.behind]:
            await self._publisher.introduce(below.servers)
        await self._reach("greeted")
        return above, below

    async def _has_forgotten_ranges(self) -> bool:
        """Return whether the Publisher was restored from a backup made before it allotted a range that the
        Subscriber has.
        """
        if MergeProtection.GUID_CHECK in self._without or not self._has_ranges:
            return False
        held = await self._subscriber.ranges()
        newest = {artid: each.newest for artid, each in held.items() if each.newest is not None}
        return await self._publisher.knows_ranges(newest) is False

    async def _refill_ranges(self) -> None:
        """Allot further ranges to the Subscriber for identity columns with few values left."""
        if not self._has_ranges:
            return
        publisher, subscriber = self._publisher, self._subscriber
        if await publisher.knows_ranges({}) is None:
            learned = await publisher.learn_ranges(await subscriber.ranges_held())
            for artid, ranges in learned.items():
                if ranges is None:
                    await subscriber.withdraw_ranges(artid)
                else:
                    await subscriber.receive_ranges(artid, ranges)
            await publisher.note_ranges()
        for artid, held in (await subscriber.ranges()).items():
            left = held
            while left.missing:  # repeated if the first allotment had been received already
                allotted = await publisher.allot_ranges(artid, left)
                await self._reach("ranges_allotted")
                if not allotted:
                    break
                await subscriber.receive_ranges(artid, allotted)
                await self._reach("ranges_received")
                left = (await subscriber.ranges())[artid]

    async def _propagate_schema(self, above: SchemaMark, below: SchemaMark) -> None:
        """Perform schema changes that the Subscriber lacks, each in one commit, before any row is sent."""
        publisher, subscriber = self._publisher, self._subscriber
        if above == below or MergeProtection.SCHEMA in self._without:
            return
        changes = await publisher.schema_changes()
        for change in missing_steps(publisher.name, changes, subscriber.name, below):
            await subscriber.alter(change)
            await self._reach("altered")

    async def _propagate(
        self, sender: MergeEndPort, receiver: MergeEndPort, sent: Marks, received: Marks, way: str
    ) -> tuple[SliceOutcome, Generation]:
        """Propagate changes in one direction; return the outcome of the rows, and the generation that the receiver
        then has.
        """
        after = start(sent, received)
        is_upload = way == "upload"
        travelling = [
            artid
            for artid in self._order
            if is_upload or artid not in self._resolvers or self._resolvers[artid].is_sent_down
        ]
        outgoing = await self._repeat(partial(sender.read, after, travelling))
        generation = outgoing.generation
        await self._reach(f"{way}_read")
        if generation.number == after and sent.sent == after:
            return SliceOutcome(), generation
        total = SliceOutcome()
        failed: dict[UUID, list[MergeRow]] = defaultdict(list)
        missing: dict[UUID, list[UUID]] = defaultdict(list)
        judges = {artid: self._judge(artid, is_upload=is_upload) for artid in travelling}
        for part in in_order(travelling, outgoing.slices):
            judge = judges[part.artid]
            if is_upload and self._ask is not None:
                await self._ask_about(part, judge, self._ask)
            asked = judge if judge.is_asked else None
            outcome = await self._repeat(partial(receiver.apply, part, generation, asked))
            missing[part.artid] += outcome.deferred
            fresh = [guid for guid in outcome.deferred if guid not in self._refused]
            outcome = replace(outcome, deferred=fresh)
            total += outcome
            self._tally.add(part, outcome, is_upload=is_upload)
            if outcome.failed:
                failed[part.artid] += [row for row in part.rows if row.rowguid in outcome.failed]
            await self._reach(f"{way}_applied")
        repeats = {
            artid: slices(artid, rows, rows_max=REPEATED_ROWS_MAX) for artid, rows in failed.items()
        }
        repeated = tuple(in_order(travelling, repeats))
        if MergeProtection.SCHEMA in self._without:
            judges = {}  # rows of another shape cannot be judged
        last = await self._repeat(partial(receiver.receive, generation, repeated, judges))
        await self._reach(f"{way}_received")
        for artid, rows in failed.items():
            left = [row.rowguid for row in rows if row.rowguid in last.failed]
            self._tally.add_repeated(artid, len(rows), len(left), is_upload=is_upload)
            missing[artid] += left
            missing[artid] += [row.rowguid for row in rows if row.rowguid in last.deferred]
        await self._repeat(partial(sender.acknowledge, generation, missing))
        await self._reach(f"{way}_acknowledged")
        return total + last, generation

    async def _transfer_conflicts(self) -> None:
        """Record at the Subscriber the conflicts that belong there; the next session repeats an interrupted
        transfer.
        """
        logging = {article.options.conflict_logging for article in self._articles.values()}
        if logging <= {Logging.PUBLISHER}:
            return
        if records := await self._publisher.outgoing_conflicts():
            await self._subscriber.log_conflicts(records)
            await self._publisher.release_conflicts([record.id for record in records])

    async def _ask_about(self, part: Slice, judge: Judge, ask: Ask) -> None:
        """Pass the present conflicts of a slice to the `ask` callback."""
        for encounter in await self._publisher.encounters(part, is_upload=True):
            if encounter.conflict is None:
                continue
            answer = ask(encounter, judged(judge, [encounter]).resolutions.get(encounter.rowguid))
            if isinstance(answer, Awaitable):
                answer = await answer
            if answer is not None:
                judge.answers[encounter.rowguid] = encounter, answer

    def _judge(self, artid: UUID, *, is_upload: bool) -> Judge:
        article = self._articles[artid]
        return Judge(
            is_upload=is_upload,
            resolver=self._resolvers.get(artid) if is_upload else None,
            handler=self._handlers.get(article.name),
            compensates=article.options.compensates,
            settled=self._settled[artid],
        )

    async def _repeat(self, step: Callable[[], Awaitable[T]]) -> T:
        """Run a step that is one commit, and retry it after transient errors."""
        attempts = 0
        while True:
            attempts += 1
            try:
                return await step()
            except psycopg.Error as error:
                if not is_repeated(error.sqlstate, attempts):
                    raise

    async def _reach(self, place: str) -> None:
        if self._points.armed:
            await self._points.reach(f"merge.{place}({self._subscriber.name})")


def _is_cut(sent: Marks, received: Marks) -> bool:
    """Return whether a session was interrupted in this direction: a generation has arrived in part, or was not
    acknowledged.
    """
    arrived = received.received.number if received.received is not None else 0
    return received.coming is not None or arrived != sent.sent
