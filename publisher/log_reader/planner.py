"""From messages of the log to rows of the distribution database; pure.

Keeps what is not stored yet: whole transactions, in the order of their commits, and the part of the one that
is still coming. It knows neither where messages come from nor when their rows are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from publisher.commands import Belonging, Command, CommandBuilder, CommandReader
from publisher.log_reader.rows import Commands, Transaction, blocks, parts, text_length
from publisher.pgoutput import Begin, Change, Commit, Decoded, Decoder, Relation, Truncate
from twopc.names import SCHEMA, article_name
from twopc.proc_execution import Writers
from twopc.propagation import CommandType

_POSTED_TYPES = {
    b"tracer_token": CommandType.TRACER_TOKEN,
    b"validation": CommandType.VALIDATION,
}
#: Made without its `__new__`, which costs as much again.
_transaction = partial(tuple.__new__, Transaction)
#: What is kept for a command besides its text, about.
_COMMAND_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A tracer token that was met."""

    id: int
    time_us: int
    """When it was committed, in microseconds since 2000."""


@dataclass(slots=True, kw_only=True)
class Batch:
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
    """The highest id of a transaction that was read so far."""
    remarked: list[tuple[int, int]] = field(default_factory=list)
    """Commit LSN and originator of transactions of which parts may carry another originator: the mark
    that counts came after them."""
    tokens: list[Token] = field(default_factory=list)
    truncated: list[tuple[int, str]] = field(default_factory=list)
    """Commit LSN and name of published tables that were emptied past the trigger that refuses it."""
    unknown: set[str] = field(default_factory=set)
    """Marks that name nobody who is registered."""


class Planner:
    """Makes the rows of one Publisher's log.

    Args:
        publisher: its number in the distribution database.
        builder: of the articles.
        originators: their numbers by link role.
        read_to: commit LSN of the last transaction stored; up to it everything is dropped.
        next_xid: a transaction id of now, with its epoch: the log leaves the epoch out.
        horizon: the highest id of a transaction about which nothing is known; see `Writers`.
    """

    def __init__(
        self,
        *,
        publisher: int,
        builder: CommandBuilder,
        originators: Mapping[str, int],
        read_to: int,
        next_xid: int,
        horizon: int = 0,
    ) -> None:
        self._publisher = publisher
        self._builder = builder
        self._originators = {role.encode(): number for role, number in originators.items()}
        self._next_xid = next_xid
        self._writers = Writers(horizon)
        self._reader = CommandReader(Decoder(), builder)
        self._own: dict[int, Relation] = {}
        self._batch = Batch()
        self._complete: list[Transaction] = []
        self._commands = Commands()
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
        self._begin(Begin(0, 0, next_xid & 0xFFFFFFFF))
        self.open = False

    @property
    def has_filters(self) -> bool:
        """Changes must be looked at before they are taken in: see `filtered`."""
        return self._builder.has_filters

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
        return map(self._reader.read, messages)

    def filtered(self, messages: Iterable[Decoded | Command]) -> list[Change]:
        """The changes among these whose images are to be compared with row filters."""
        tables: dict[int, bool] = {}
        found: list[Change] = []
        for message in messages:
            if type(message) is Change:
                relation = message.relation
                known = tables.get(id(relation))
                if known is None:
                    known = tables[id(relation)] = bool(self._builder.filtered(relation))
                if known:
                    found.append(message)
        return found

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
        for message in messages:
            if type(message) is tuple:  # the only command of a change
                if self._dropping:
                    continue
                # a named tuple is not meant, which mypy cannot know
                article, code, hashkey, text = cast("Command", message)
                count += 1
                size = len(text)
                length += size
                add_code(article * 100 + code)
                add_hashkey(hashkey)
                add_text((text_length(size), text))
            elif type(message) is Change:
                if self._dropping:
                    continue
                if message[0][0] in own:
                    self._count = count
                    made: Sequence[Command] = self._take_own(message)
                elif belonging is None:
                    made = commands_of(message)
                else:
                    made = commands_of(message, belonging.get(id(message), ()))
                if not made and message[0][0] not in own:
                    self.passed_over = True
                for article, code, hashkey, text in made:
                    count += 1
                    size = len(text)
                    length += size
                    add_code(article * 100 + code)
                    add_hashkey(hashkey)
                    add_text((text_length(size), text))
            elif type(message) is Begin:
                self._begin(message)
                count = length = 0
            elif type(message) is Commit:
                self._count, self._length = count, length
                self._commit(message)
                count = length = 0
            elif type(message) is Relation:
                self._announced(message)
            elif type(message) is Truncate and not self._dropping:
                self._truncated(message)
        self._count, self._length = count, length

    def take(self) -> Batch:
        """The complete transactions, which are kept here no longer."""
        batch, self._batch = self._batch, Batch()
        batch.read_to, batch.time_us = self.read_to, self._committed_us
        batch.horizon = self._writers.highest
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
        rows = parts(self._publisher, self._transaction(), taken)
        self._stored += len(taken)
        self._part += len(rows)
        self._taken = self._length + self._count * _COMMAND_BYTES
        return rows

    # -- single messages --------------------------------------------------------------------------

    def _begin(self, message: Begin) -> None:
        self._lsn, self._time_us, xid = message
        self._xid = self._next_xid = full_xid(xid, self._next_xid)
        self._dropping = self._lsn <= self.read_to
        self._count = self._length = self._taken = self._stored = self._part = 0
        self._originator = 0
        self._marks: tuple[bytes, ...] = ()
        self._remarked = False
        self._tokens: tuple[Token, ...] = ()
        self.open = True

    def _commit(self, message: Commit) -> None:
        self.end_lsn = message.end_lsn
        self.open = False
        self._writers.highest = max(self._writers.highest, self._xid)
        if self._dropping:
            return
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

    def _transaction(self) -> Transaction:
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

    def _announced(self, relation: Relation) -> None:
        if relation.schema == SCHEMA and relation.name in ("branch_marker", "log_message"):
            self._own[relation.oid] = relation
        else:
            self._own.pop(relation.oid, None)

    def _truncated(self, message: Truncate) -> None:
        self._batch.truncated += [
            (self._lsn, article_name(relation.schema, relation.name))
            for relation in message.relations
            if relation.oid not in self._own
        ]

    def _take_own(self, change: Change) -> Sequence[Command]:
        """A mark, or what was posted. Rows of ours are only ever added; old ones are cleaned up."""
        if change.new is None or change.operation != "ins":
            return ()
        columns = [column.name for column in change.relation.columns]
        row = dict(zip(columns, change.new, strict=True))
        if change.relation.name == "branch_marker":
            self._mark(row)
            return ()
        kind = _POSTED_TYPES.get(row["kind"] or b"")
        if kind is None:
            return ()
        if kind == CommandType.TRACER_TOKEN:
            self._tokens += (Token(id=int(row["id"] or 0), time_us=self._time_us),)
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
