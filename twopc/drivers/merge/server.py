"""One node of a merge session on a server; see `twopc.drivers.merge.ports.MergeEndPort`.

Connects with the role of the agent for one neighbour, which may execute a few functions and nothing else.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.pq import TransactionStatus

from twopc import names
from twopc.drivers.merge.packed_rows import adapt_packed, arrays, packed_slices
from twopc.drivers.merge.ports import (
    ConflictRecord,
    OutgoingChanges,
    SessionArticle,
    SessionRecord,
    SliceOutcome,
)
from twopc.drivers.merge.row_texts import RowTexts
from twopc.drivers.merge.schema_changes import changes_of
from twopc.drivers.merge.server_ranges import ServerRanges
from twopc.drivers.merge.slice_rows import (
    APPLY,
    JudgedRows,
    apply_arguments,
    apply_rows,
    outcome_of,
)
from twopc.errors import MergeError
from twopc.merge.articles import Logging, MergeOptions, Upload
from twopc.merge.encounters import MergeEncounter
from twopc.merge.judge import Fault, Judge, is_fault_of_row
from twopc.merge.marks import Generation, Marks, ServerSubscription
from twopc.merge.plan import Slice
from twopc.merge.schema_changes import SchemaChange, SchemaMark, mark_of
from twopc.merge.snapshots import being_initialised
from twopc.sql import path
from twopc.sql.exclusive import free_key, others

_OURS = "a.usename = session_user"
_NAME = "'msrepl merge agent of ' || session_user"
_LOCK = "select pg_try_advisory_lock(%s, %s)"
#: Begins a transaction; settings made by code of a table's owner end with the commit.
_BEGIN = "begin; reset all; set constraints all immediate"
#: In one round trip, so that no other session closes a generation meanwhile.
_CLOSE = (
    "begin isolation level repeatable read; reset all;"
    " lock table msrepl.msmerge_genhistory in share row exclusive mode; {}; select * from msrepl.merge_close()"
)
_TOUCH = "select msrepl.merge_touch_mappings(%s, %b::uuid[], %s)"
_ENUMERATE: LiteralString = (
    "select s.gone, s.leaves, s.guids, s.gones, s.lineages, s.colvs, s.writers, s.rows from {}(%s, %s) as s"
    " where s.leaves or not (s.gone and %s)"
)
_RECEIVE = "select msrepl.merge_receive(%s, %s, %s)"
_END = (
    "select msrepl.merge_end_session(%s::real, %s, %s, %s, %s::uuid[], %s::smallint[], %s::integer[], %s::integer[],"
    " %s::integer[], %s::integer[], %s::integer[])"
)
_LOG_CONFLICTS = (
    "select msrepl.merge_log_conflicts(%s::uuid[], %s::uuid[], %s::uuid[], %s::text[], %s::int8[], %s::smallint[],"
    " %s::text[], %s::text[], %s::text[], %s::timestamptz[], %s::text[])"
)


class ServerMergeEnd(ServerRanges):
    """See `MergeEndPort`.

    Args:
        name: name of the node.
        connect: connects with the agent's role for the neighbour, in autocommit mode, with these settings and this
            ``application_name``.
        release: takes the connection back at the end of the session, which has left no state in it.
        make_change: performs the Publisher's schema changes at this node, for which the agent's role has no rights.
        lock_timeout_ms: how long a slice may wait for an application's lock.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[Mapping[str, str], str], Awaitable[AsyncConnection[Any]]],
        release: Callable[[AsyncConnection[Any]], Awaitable[None]],
        make_change: Callable[[SchemaChange], Awaitable[None]],
        *,
        lock_timeout_ms: int = 5000,
    ) -> None:
        self.name = name
        self._connect = connect
        self._release = release
        self._make_change = make_change
        self._check_schema = ""
        self._settings = {
            **path.VALUES,
            **path.LASTING,
            "session_replication_role": "replica",
            "lock_timeout": str(lock_timeout_ms),
        }
        self._connection: AsyncConnection[Any] | None = None
        self._articles: dict[UUID, SessionArticle] = {}
        self._types: dict[UUID, list[int]] = {}
        self._opened_s = time.monotonic()

    async def open(self, *, alone: bool) -> None:
        """See `MergeEndPort`."""
        self._opened_s = time.monotonic()
        self._connection = await self._connect(self._settings, f"msrepl merge agent at {self.name}")
        adapt_packed(self._connection)
        if alone:
            [(key, number, _)] = await self._rows(free_key(_NAME, _OURS))
            await self._rows(_LOCK, key, number)
            if rivals := await self._rows(others(_NAME, _OURS)):
                raise MergeError(
                    f"another merge agent works for this subscription at {self.name} (21036): {rivals[0][2]}",
                    node=self.name,
                    number=21036,
                )

    async def close(self) -> None:
        """See `MergeEndPort`."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:  # a backend that ends with a delay would block the next agent
            await connection.execute("rollback")
            await connection.execute("discard all")  # cached plans, too: tables may grow
            await self._release(connection)
        except BaseException as error:
            # also a cancellation must not leave a backend that blocks others
            await connection.close()
            if not isinstance(error, psycopg.Error):
                raise

    async def _rows(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        assert self._connection is not None
        cursor = await self._connection.execute(query.encode(), arguments or None)
        while cursor.nextset():
            pass
        return await cursor.fetchall() if cursor.description else []

    async def marks(self) -> Marks:
        """See `MergeEndPort`."""
        try:
            [answer] = await self._rows("select * from msrepl.merge_hello()")
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            why = f"{self.name}: {error.diag.message_primary}: {error.diag.message_hint}"
            raise MergeError(why, node=self.name, sqlstate=error.sqlstate or "") from error
        except psycopg.errors.InsufficientPrivilege as error:
            # the right is granted once all rows are delivered
            why = being_initialised(self.name)
            raise MergeError(why, node=self.name, sqlstate=error.sqlstate or "") from error
        (
            replica,
            former,
            neighbour,
            neighbour_former,
            sent,
            *arrived,
            cleaned,
            is_expired,
            servers,
            behind,
            made,
            made_guid,
        ) = answer
        recgen, recguid, coming, coming_guid, known_from = arrived
        return Marks(
            replica=replica,
            former=tuple(former),
            neighbour=neighbour,
            neighbour_former=tuple(neighbour_former),
            sent=sent,
            received=_generation(recgen, recguid),
            coming=_generation(coming, coming_guid),
            known_from=known_from,
            cleaned=cleaned,
            schema=self._shape(SchemaMark(version=made or 0, guid=made_guid)),
            is_expired=is_expired,
            servers=tuple(map(_server, servers)),
            behind=tuple(map(_server, behind)),
        )

    async def knows(self, generation: Generation) -> bool:
        """See `MergeEndPort`."""
        arguments = (generation.number, generation.guid)
        return await self._rows("select msrepl.merge_knows(%s, %s)", *arguments) == [(True,)]

    async def rewind(self) -> None:
        """See `MergeEndPort`."""
        await self._rows("select msrepl.merge_rewind()")

    async def begin_anew(self, neighbour: int, cleaned: int) -> None:
        """See `MergeEndPort`."""
        await self._rows("select msrepl.merge_begin_anew(%s, %s)", neighbour, cleaned)

    async def schema_changes(self) -> Sequence[SchemaChange]:
        """See `MergeEndPort`."""
        changes = changes_of(await self._rows("select * from msrepl.merge_schema_changes()"))
        self._shape(mark_of(changes))
        return changes

    def _shape(self, schema: SchemaMark) -> SchemaMark:
        """Set the schema change in whose shape rows are sent; a transaction fails if the node has another."""
        self._check_schema = f"select msrepl.merge_check_schema({schema.version})"
        return schema

    async def alter(self, change: SchemaChange) -> None:
        """See `MergeEndPort`."""
        await self._make_change(change)
        self._shape(mark_of([change]))

    async def articles(self) -> Mapping[UUID, SessionArticle]:
        """See `MergeEndPort`."""
        for (
            artid, name, parents, columns, types, tracking, resolver, compensates, upload, deletes, logging,
            is_filtered, has_ranges, numbers,
        ) in await self._rows("select * from msrepl.merge_articles()"):  # fmt: skip
            self._types[artid] = types
            self._articles[artid] = SessionArticle(
                name=name,
                parents=tuple(parents),
                columns=tuple(columns),
                column_tracking=tracking,
                numbers=tuple(numbers),
                is_filtered=is_filtered,
                has_ranges=has_ranges,
                options=MergeOptions(
                    resolver=resolver,
                    compensates=compensates,
                    upload=Upload(upload),
                    keeps_deletes=not deletes,
                    conflict_logging=Logging(logging),
                ),
            )
        return self._articles

    async def read(self, after: int, articles: Sequence[UUID]) -> OutgoingChanges:
        """See `MergeEndPort`."""
        assert self._connection is not None
        changed: dict[UUID, Sequence[Slice]] = {}
        async with self._one_commit(_CLOSE.format(self._check_schema)) as [(number, guid)]:
            for artid in articles if number > after else ():
                function = sql.Identifier(names.SCHEMA, names.merge_object("enumerate", artid))
                query = sql.SQL(_ENUMERATE).format(function)
                arguments = (after, number, self._articles[artid].options.keeps_deletes)
                cursor = await self._connection.execute(query, arguments, binary=True)
                changed[artid] = packed_slices(artid, cursor)
            await self._rows("select msrepl.merge_refuse_rewritten()")
        return OutgoingChanges(generation=Generation(number=number, guid=guid), slices=changed)

    def _judged_rows(self, part: Slice) -> JudgedRows:
        assert self._connection is not None
        article = self._articles[part.artid]
        texts = RowTexts(article.columns, self._types[part.artid], self._connection)
        return JudgedRows(self.name, self._rows, article, texts, part)

    async def encounters(self, part: Slice, *, is_upload: bool) -> Sequence[MergeEncounter]:
        """See `MergeEndPort`."""
        await self._rows(f"{_BEGIN}; {self._check_schema}")
        try:
            return await self._judged_rows(part).encounters(is_upload=is_upload)
        finally:
            await self._roll_back()

    async def apply(
        self, part: Slice, coming: Generation, judge: Judge | None = None
    ) -> SliceOutcome:
        """See `MergeEndPort`."""
        if judge is None:
            return await self._apply_at_once(part, coming)
        async with self._one_commit():
            outcome = await self._apply(part, judge)
            await self._rows(_RECEIVE, coming.number, coming.guid, False)
        return outcome

    async def _apply_at_once(self, part: Slice, coming: Generation) -> SliceOutcome:
        """Send all statements of the commit together: none depends on the result of another."""
        connection = self._connection
        assert connection is not None
        try:
            async with connection.pipeline():
                for statement in (*_BEGIN.split("; "), self._check_schema):
                    await connection.execute(statement.encode())
                cursor = await connection.execute(APPLY, apply_arguments(part))
                if self._articles[part.artid].is_filtered:
                    await connection.execute(_TOUCH, (part.artid, arrays(part.rows)[0], False))
                await connection.execute(_RECEIVE, (coming.number, coming.guid, False))
                await connection.execute("commit")
                answer = await cursor.fetchone()
        except BaseException:
            await self._roll_back()
            raise
        assert answer is not None
        return outcome_of(answer)

    async def receive(
        self, generation: Generation, repeated: Sequence[Slice], judges: Mapping[UUID, Judge]
    ) -> SliceOutcome:
        """See `MergeEndPort`."""
        async with self._one_commit():
            outcome = await self._apply_deferred(repeated, judges) if repeated else SliceOutcome()
            await self._rows(_RECEIVE, generation.number, generation.guid, True)
        return outcome

    @asynccontextmanager
    async def _one_commit(self, begin: str | None = None) -> AsyncIterator[list[tuple[Any, ...]]]:
        try:
            yield await self._rows(begin or f"{_BEGIN}; {self._check_schema}")
        except BaseException:
            await self._roll_back()
            raise
        await self._rows("commit")

    async def _apply_deferred(
        self, parts: Sequence[Slice], judges: Mapping[UUID, Judge]
    ) -> SliceOutcome:
        """Apply rows that depend on each other together, with deferred constraints where possible."""
        await self._rows("savepoint each_by_itself; set constraints all deferred")
        outcome, left = await self._apply_in_turns(parts, judges)
        try:
            await self._rows("set constraints all immediate")
        except psycopg.Error as error:
            if not is_fault_of_row(error.sqlstate):
                raise
            await self._rows("rollback to each_by_itself; set constraints all immediate")
            outcome, left = await self._apply_in_turns(parts, judges)
        failed: dict[UUID, Fault] = {}
        for part in left:
            last = await self._apply(part, judges.get(part.artid), is_final=True)
            outcome += last
            failed |= last.failed
        return replace(outcome, failed=failed)

    async def _apply_in_turns(
        self, parts: Sequence[Slice], judges: Mapping[UUID, Judge]
    ) -> tuple[SliceOutcome, list[Slice]]:
        """Apply slices until a round applies no further row; return the outcome, and the remaining slices."""
        total = SliceOutcome()
        left = list(parts)
        while left:
            outcomes = [await self._apply(part, judges.get(part.artid)) for part in left]
            total = sum(outcomes, total)
            rest = [
                replace(part, rows=tuple(r for r in part.rows if r.rowguid in outcome.failed))
                for part, outcome in zip(left, outcomes, strict=True)
                if outcome.failed
            ]
            if rest == left:
                break
            left = rest
        return total, left

    async def _apply(
        self, part: Slice, judge: Judge | None, *, is_final: bool = False
    ) -> SliceOutcome:
        if judge is not None and not part.leaves:
            outcome = await self._judged_rows(part).take(judge, is_final=is_final)
        else:
            outcome = await apply_rows(self._rows, part, is_final, ())
        if self._articles[part.artid].is_filtered:
            await self._rows(_TOUCH, part.artid, arrays(part.rows)[0], False)
        return outcome

    async def _roll_back(self) -> None:
        if self._connection is not None and not self._connection.broken:
            await self._rows("rollback")

    async def outgoing_conflicts(self) -> Sequence[ConflictRecord]:
        """See `MergeEndPort`."""
        rows = await self._rows("select * from msrepl.merge_outgoing_conflicts()")
        return [ConflictRecord(id=row[0], artid=row[1], content=row[2:]) for row in rows]

    async def log_conflicts(self, records: Sequence[ConflictRecord]) -> None:
        """See `MergeEndPort`."""
        rows = [(each.id, each.artid, *each.content) for each in records]
        await self._rows(_LOG_CONFLICTS, *map(list, zip(*rows, strict=True)))

    async def release_conflicts(self, ids: Sequence[UUID]) -> None:
        """See `MergeEndPort`."""
        await self._rows("select msrepl.merge_release_conflicts(%s::uuid[])", list(ids))

    async def acknowledge(
        self, generation: Generation, missing: Mapping[UUID, Collection[UUID]]
    ) -> None:
        """See `MergeEndPort`."""
        pairs = [(artid, rowguid) for artid, guids in missing.items() for rowguid in guids]
        await self._rows(
            "select msrepl.merge_acknowledge(%s, %s, %s::uuid[], %s::uuid[])",
            generation.number,
            generation.guid,
            [artid for artid, _ in pairs],
            [rowguid for _, rowguid in pairs],
        )

    async def introduce(self, servers: Sequence[ServerSubscription]) -> None:
        """See `MergeEndPort`."""
        named = [
            {"name": each.name, "replicas": each.replicas, "priority": each.priority}
            for each in servers
        ]
        await self._rows("select msrepl.merge_introduce(%s::jsonb)", json.dumps(named))

    async def end(self, record: SessionRecord) -> int:
        """See `MergeEndPort`."""
        assert self._connection is not None
        if self._connection.info.transaction_status is not TransactionStatus.IDLE:
            await self._rows("rollback")
        each = record.articles
        [(cleaned,)] = await self._rows(
            _END,
            time.monotonic() - self._opened_s,
            record.resumed,
            record.anew,
            record.error,
            [counts.artid for counts in each],
            [1 if counts.is_upload else 2 for counts in each],
            [counts.rows for counts in each],
            [counts.deletes for counts in each],
            [counts.conflicts for counts in each],
            [counts.deferred for counts in each],
            [counts.retried for counts in each],
        )
        return int(cleaned)

    async def settle(self, generation: Generation, cleaned: int) -> None:
        """See `MergeEndPort`."""
        await self._rows("select msrepl.merge_settle(%s, %s)", generation.number, cleaned)


def _server(stored: Mapping[str, Any]) -> ServerSubscription:
    return ServerSubscription(
        name=stored["name"], replicas=tuple(stored["replicas"]), priority=stored["priority"]
    )


def _generation(number: int | None, guid: UUID | None) -> Generation | None:
    return None if number is None or guid is None else Generation(number=number, guid=guid)
