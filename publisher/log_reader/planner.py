"""From messages of the log to rows of the distribution database; pure.

Keeps what is not stored yet: whole transactions, in the order of their commits, and the part of the one that
is still coming. It knows neither where messages come from nor when their rows are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from twopc.names import SCHEMA, article_name
from twopc.proc_execution import ProcArticle
from twopc.propagation import CommandType
from twopc.publisher.commands import Belonging, Command, CommandBuilder, CommandReader
from twopc.publisher.log_reader.brackets import Brackets
from twopc.publisher.log_reader.rows import (
    CommandColumns,
    LoggedTransaction,
    blocks,
    parts,
    text_length,
)
from twopc.publisher.pgoutput import (
    BeginMessage,
    CommitMessage,
    Decoded,
    Decoder,
    RelationMessage,
    RowMessage,
    TruncateMessage,
)

_OWN = ("branch_marker", "log_message", "call_marker")
_POSTED_TYPES = {
    b"tracer_token": CommandType.TRACER_TOKEN,
    b"validation": CommandType.VALIDATION,
}
#: Made without its `__new__`, which costs as much again.
_transaction = partial(tuple.__new__, LoggedTransaction)
#: What is kept for a command besides its text, about.
_COMMAND_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TracerToken:
    """A tracer token that was met."""

    id: int
    time_us: int
    """When it was committed, in microseconds since 2000."""


@dataclass(slots=True, kw_only=True)
class StoredBatch:
    """Whole transactions, to be stored in one commit."""

    transactions: int = 0
    commands: int = 0
    blocks: list[bytes] = field(default_factory=list)
    """Rows of COPY data."""
    read_to: int = 0
    """Commit LSN of the last of them."""
    time_us: int = 0
    """When that one was committed."""
    horizon: int = 0
    """The highest id of a writer that was read so far."""
    remarked: list[tuple[int, int]] = field(default_factory=list)
    """Commit LSN and originator of transactions of which parts may carry another originator: the mark
    that counts came after them."""
    tokens: list[TracerToken] = field(default_factory=list)
    truncated: list[tuple[int, str]] = field(default_factory=list)
    """Commit LSN and name of published tables that were emptied past the trigger that refuses it."""
    fallbacks: list[tuple[int, int]] = field(default_factory=list)
    """Commit LSN and routine of calls that travel as rows because their snapshots did not see a writer."""
    unknown: set[str] = field(default_factory=set)
    """Marks that name nobody who is registered."""


class LogPlanner:
    """Makes the rows of one Publisher's log.

    Args:
        publisher: its number in the distribution database.
        builder: of the articles.
        originators: their numbers by link role.
        read_to: commit LSN of the last transaction stored; up to it everything is dropped.
        next_xid: a transaction id of now, with its epoch: the log leaves the epoch out.
        calls, beside_until, horizon: see `Brackets`.
    """

    def __init__(
        self,
        *,
        publisher: int,
        builder: CommandBuilder,
        originators: Mapping[str, int],
        read_to: int,
        next_xid: int,
        calls: Mapping[int, ProcArticle] | None = None,
        beside_until: int = -1,
        horizon: int = 0,
    ) -> None:
        self._publisher = publisher
        self._builder = builder
        self._originators = {role.encode(): number for role, number in originators.items()}
        self._next_xid = next_xid
        self._brackets = Brackets(
            calls or {}, builder.tables, beside_until=beside_until, horizon=horizon
        )
        self.has_calls = bool(calls)
        """Calls of routines are stored."""
        self._reader = CommandReader(Decoder(), builder)
        self._own: dict[int, RelationMessage] = {}
        self._own_oids: set[bytes] = set()
        self._batch = StoredBatch()
        self._complete: list[LoggedTransaction] = []
        self._commands = CommandColumns()
        #: how many of the commands, and of the bytes, belong to complete transactions
        self._whole = self._kept = 0
        self._committed_us = 0
        self.read_to = read_to
        """Commit LSN of the last complete transaction, stored or not, with commands or without."""
        self.end_lsn = 0
        """Where the commit of the last complete transaction ends, dropped ones included; 0: none came."""
        self.open: bool
        """A transaction has begun and is not complete."""
        self.passed_over = False
        """Changes came of which no commands were made: of nobody's interest, if the articles are still those
        that they were compared with."""
        #: of the transaction that is coming: commands, bytes of their texts; what was taken already
        self._count: int
        self._length: int
        self._taken: int
        self._stored: int
        self._part: int
        self._begin(BeginMessage(0, 0, next_xid & 0xFFFFFFFF))
        self.open = False

    @property
    def has_filters(self) -> bool:
        """Changes must be looked at before they are taken in: see `filtered`."""
        return self._builder.has_filters

    @property
    def horizon(self) -> int:
        """The highest id of a writer that was read so far."""
        return self._brackets.writers.highest

    @property
    def transactions(self) -> int:
        """How many complete ones are kept."""
        return len(self._complete)

    @property
    def size(self) -> int:
        """How many bytes are kept, about."""
        return self._kept + self._length + self._count * _COMMAND_BYTES - self._taken

    def decoded(self, messages: Iterable[bytes]) -> Iterator[Decoded | Command]:
        """The messages, read, for `feed`; each as it is asked for."""
        if self.has_calls and not self.has_filters:  # else a block is read before it is fed
            return self._not_replaced(messages)
        return map(self._reader.read, messages)

    def _not_replaced(self, messages: Iterable[bytes]) -> Iterator[Decoded | Command]:
        """Those that a call does not replace: it may replace many, and reading them costs the most."""
        read = self._reader.read
        for data in messages:
            if self._silent and data[0] in b"IUD" and data[1:5] not in self._own_oids:
                continue
            yield read(data)

    def filtered(self, messages: Iterable[Decoded | Command]) -> list[RowMessage]:
        """The changes among these whose images are to be compared with row filters."""
        tables: dict[int, bool] = {}
        results: list[RowMessage] = []
        for message in messages:
            if type(message) is RowMessage:
                relation = message.relation
                known = tables.get(id(relation))
                if known is None:
                    known = tables[id(relation)] = bool(self._builder.filtered(relation))
                if known:
                    results.append(message)
        return results

    def feed(
        self,
        messages: Iterable[Decoded | Command],
        belonging: Mapping[int, Belonging] | None = None,
    ) -> None:
        """Take messages in.

        Args:
            belonging: by the `id` of each change that `filtered` has found.

        Raises:
            RemoteProtocolError: a message cannot be read.
            ArticleError: an article does not fit what the log holds of its table.
        """
        commands_of, own = self._builder.commands, self._own
        count, length, kept = self._count, self._length, self._commands
        add_code, add_hashkey = kept.codes.append, kept.hashkeys.append
        add_text = kept.texts.extend
        shift = self._brackets.shift * 100
        for message in messages:
            if type(message) is tuple:  # the only command of a change
                if self._silent:
                    continue
                # a named tuple is not meant, which mypy cannot know
                article, code, hashkey, text = cast("Command", message)
                count += 1
                size = len(text)
                length += size
                add_code(article * 100 + code + shift)
                add_hashkey(hashkey)
                add_text((text_length(size), text))
            elif type(message) is RowMessage:
                if message[0][0] in own:
                    if self._dropping:
                        continue
                    self._count = count
                    made: Sequence[Command] = self._take_own(message)
                    aside, shift = 0, self._brackets.shift * 100
                elif self._silent:
                    continue
                else:
                    if belonging is None:
                        made = commands_of(message)
                    else:
                        made = commands_of(message, belonging.get(id(message), ()))
                    aside = shift
                    if not made:
                        self._passed_over(message[0])
                for article, code, hashkey, text in made:
                    count += 1
                    size = len(text)
                    length += size
                    add_code(article * 100 + code + aside)
                    add_hashkey(hashkey)
                    add_text((text_length(size), text))
            elif type(message) is BeginMessage:
                self._begin(message)
                count = length = shift = 0
            elif type(message) is CommitMessage:
                self._count, self._length = count, length
                self._commit(message)
                count = length = 0
            elif type(message) is RelationMessage:
                self._announced(message)
            elif type(message) is TruncateMessage and not self._dropping:
                self._truncated(message)
        self._count, self._length = count, length

    def take(self) -> StoredBatch:
        """The complete transactions, which are kept here no longer."""
        batch, self._batch = self._batch, StoredBatch()
        batch.read_to, batch.time_us = self.read_to, self._committed_us
        batch.horizon = self.horizon
        batch.fallbacks, self._brackets.fallbacks = self._brackets.fallbacks, []
        complete, commands = self._complete, self._commands.take(self._whole)
        batch.transactions, batch.commands = (
            len(complete),
            sum([each.commands for each in complete]),
        )
        batch.blocks = list(blocks(self._publisher, complete, commands))
        complete.clear()
        self._whole = self._kept = 0
        self.passed_over = False
        return batch

    def take_part(self) -> list[bytes]:
        """Rows of COPY data: the transaction that is coming, as far as it has come.

        Only while no complete one is kept: the store has the order of the log.
        """
        assert not self._whole
        taken = self._commands.take(len(self._commands))
        self._brackets.made(taken.codes)
        rows = parts(self._publisher, self._transaction(), taken)
        self._stored += len(taken)
        self._part += len(rows)
        self._taken = self._length + self._count * _COMMAND_BYTES
        return rows

    # -- single messages --------------------------------------------------------------------------

    def _begin(self, message: BeginMessage) -> None:
        self._lsn, self._time_us, xid = message
        self._xid = self._next_xid = full_xid(xid, self._next_xid)
        self._dropping = self._silent = self._lsn <= self.read_to
        self._brackets.begin(self._lsn)
        self._count = self._length = self._taken = self._stored = self._part = 0
        self._originator = 0
        self._marks: tuple[bytes, ...] = ()
        self._remarked = False
        self._tokens: tuple[TracerToken, ...] = ()
        self.open = True

    def _commit(self, message: CommitMessage) -> None:
        self.end_lsn = message.end_lsn
        self.open = False
        if self._dropping:
            self._brackets.passed(self._xid)
            return
        if self.has_calls:
            self._brackets.made(self._commands.codes[self._whole :])
        self._brackets.commit(self._xid)
        self.read_to, self._committed_us = self._lsn, self._time_us
        if self._count:
            self._keep()
        self._kept = self.size
        self._count = self._length = self._taken = 0
        self._whole = len(self._commands)

    def _keep(self) -> None:
        self._complete.append(self._transaction())
        if self._tokens:
            self._batch.tokens += self._tokens
        if self._remarked and self._part:
            self._batch.remarked.append((self._lsn, self._originator))

    def _transaction(self) -> LoggedTransaction:
        """The one that is coming, as it is now."""
        return _transaction(
            (
                self._lsn,
                self._xid,
                self._time_us,
                self._originator,
                len(self._marks),
                self._count,
                self._length,
                self._stored,
                self._part,
            )
        )

    def _announced(self, relation: RelationMessage) -> None:
        oid = relation.oid.to_bytes(4, "big")
        if relation.schema == SCHEMA and relation.name in _OWN:
            self._own[relation.oid] = relation
            self._own_oids.add(oid)
        else:
            self._own.pop(relation.oid, None)
            self._own_oids.discard(oid)

    def _truncated(self, message: TruncateMessage) -> None:
        emptied = [
            article_name(relation.schema, relation.name)
            for relation in message.relations
            if relation.oid not in self._own
        ]
        self._batch.truncated += [(self._lsn, table) for table in emptied]
        for table in emptied:
            self._brackets.changed(table)

    def _passed_over(self, relation: RelationMessage) -> None:
        self.passed_over = True
        if self.has_calls:
            self._brackets.changed(article_name(relation.schema, relation.name))

    def _take_own(self, change: RowMessage) -> Sequence[Command]:
        """A mark of a branch or of a call, or what was posted. Rows of ours are only ever added; old ones are cleaned up."""
        if change.new is None or change.operation != "ins":
            return ()
        columns = [column.name for column in change.relation.columns]
        row = dict(zip(columns, change.new, strict=True))
        if change.relation.name == "branch_marker":
            self._mark(row)
            return ()
        if change.relation.name == "call_marker":
            made = self._brackets.marked(row, remarked=self._remarked)
            self._silent = self._brackets.silent
            return made
        if row["kind"] == b"procedure":
            self.passed_over = True  # the writer is to be known even if there is no command
            return self._brackets.defined(row["body"] or b"{}")
        kind = _POSTED_TYPES.get(row["kind"] or b"")
        if kind is None:
            return ()
        if kind == CommandType.TRACER_TOKEN:
            self._tokens += (TracerToken(id=int(row["id"] or 0), time_us=self._time_us),)
        return ((0, kind, 0, row["body"] or b"{}"),)

    def _mark(self, row: Mapping[str, bytes | None]) -> None:
        """The last mark of a transaction counts, as in the original; how many there were is kept."""
        role = row["originator"]
        if role is None or row["fence"] == b"t":
            return
        number = self._originators.get(role, 0)
        if not number:
            self._batch.unknown.add(role.decode())
        if role not in self._marks:
            self._marks += (role,)
        if self._count and number != self._originator:
            self._remarked = True
        self._originator = number


def full_xid(xid: int, near: int) -> int:
    """The transaction id with its epoch whose low 32 bits are `xid`: the nearest to `near`."""
    return near + (xid - near + 2**31) % 2**32 - 2**31
