"""Conversion of messages of the log into rows of the distribution database; pure.

The planner keeps what is not stored yet: whole transactions, in commit order, and the received part of the
current one. It knows neither where messages come from nor when their rows are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from twopc.core import CommandScanner, int4_from, int4_of
from twopc.names import SCHEMA, article_name
from twopc.proc_execution import ProcArticle
from twopc.propagation import CommandType
from twopc.publisher.commands import Belonging, Command, CommandBuilder
from twopc.publisher.log_reader.brackets import Brackets
from twopc.publisher.log_reader.rows import StoredPart, blocks, parts
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
#: Operations by their letters in messages.
_OPERATIONS = {b"I": "ins", b"U": "upd", b"D": "del"}


class _Elements(dict[int, bytes]):
    """Cache of array elements for recurring numbers."""

    def __missing__(self, number: int) -> bytes:
        made = self[number] = int4_of(number)
        return made


_CODES, _HASHKEYS = _Elements(), _Elements()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderArticles:
    """Articles and originators with which the log reader makes commands."""

    builder: CommandBuilder
    originators: Mapping[str, int]
    """Numbers of originators by link role."""
    calls: Mapping[int, ProcArticle] = field(default_factory=dict)
    """Routines whose calls are stored."""
    beside_until: int = -1
    """Commit LSN up to which the rows of a call are stored beside it."""
    horizon: int = 0
    """Highest transaction id of a stored writer; 0 if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracerToken:
    """A tracer token in the log."""

    id: int
    time_us: int
    """Commit time, in microseconds since 2000."""


@dataclass(slots=True, kw_only=True)
class StoredBatch:
    """Whole transactions to be stored in one commit."""

    transactions: int = 0
    commands: int = 0
    blocks: list[bytes] = field(default_factory=list)
    """Rows of COPY data."""
    read_to: int = 0
    """Commit LSN of the last transaction."""
    end_lsn: int = 0
    """End of its commit record."""
    time_us: int = 0
    """Commit time of the last transaction."""
    horizon: int = 0
    """Highest transaction id of a writer read so far."""
    remarked: list[tuple[int, int]] = field(default_factory=list)
    """Commit LSN and originator of transactions whose stored parts may carry another originator: the
    branch marker that counts came after these parts.
    """
    tokens: list[TracerToken] = field(default_factory=list)
    truncated: list[tuple[int, str]] = field(default_factory=list)
    """Commit LSN and name of published tables that were truncated despite the trigger that refuses it."""
    fallbacks: list[tuple[int, int]] = field(default_factory=list)
    """Commit LSN and routine of calls that are sent as rows because their snapshots missed a writer."""
    unknown: set[str] = field(default_factory=set)
    """Roles in branch markers that are not registered."""


class LogPlanner:
    """Makes the rows of one Publisher's log. The scanner of `twopc.core` processes the common messages.

    Args:
        publisher: number of the Publisher in the distribution database.
        read_to: commit LSN of the last stored transaction; transactions up to it are dropped.
        next_xid: a current transaction id with its epoch, which the log omits.
    """

    def __init__(
        self, known: ReaderArticles, *, publisher: int, read_to: int, next_xid: int
    ) -> None:
        self._publisher = publisher
        self.builder = known.builder
        self._originators = {role.encode(): number for role, number in known.originators.items()}
        self._brackets = Brackets(
            known.calls,
            known.builder.tables,
            beside_until=known.beside_until,
            horizon=known.horizon,
        )
        self.has_calls = bool(known.calls)
        """Whether calls of routines are stored."""
        self._scanner = CommandScanner(read_to, next_xid, pauses=self.has_calls)
        self._decoder = Decoder()
        self._own: dict[int, RelationMessage] = {}
        self._compared: set[bytes] = set()
        """OIDs of relations on which articles have row filters."""
        self._batch = StoredBatch()
        self.passed_over = False
        """Whether changes arrived of which no commands were made: they concern no Subscriber if the
        articles they were compared with are current.
        """
        #: state of the current transaction
        self._marks: tuple[bytes, ...] = ()
        self._remarked = False
        self._tokens: tuple[TracerToken, ...] = ()

    @property
    def horizon(self) -> int:
        """Highest transaction id of a writer read so far."""
        return max(
            self._brackets.writers.highest, 0 if self.has_calls else self._scanner.highest_xid
        )

    @property
    def transactions(self) -> int:
        """Number of complete transactions kept."""
        return len(self._scanner.counts)

    @property
    def size(self) -> int:
        """Approximate number of bytes kept."""
        return self._scanner.size

    @property
    def open(self) -> bool:
        """Whether a transaction has begun and is not complete."""
        return self._scanner.open

    @property
    def coming(self) -> int:
        """Number of commands received of the current transaction; 0 if there is none."""
        return self._scanner.count

    @property
    def end_lsn(self) -> int:
        """End of the commit record of the last complete transaction, even if dropped; 0 if there is none."""
        return int.from_bytes(self._scanner.last_commit[10:18])

    @property
    def read_to(self) -> int:
        """Commit LSN of the last complete transaction, stored or not, with commands or without."""
        return int.from_bytes(self._scanner.read_to)

    @read_to.setter
    def read_to(self, lsn: int) -> None:
        self._scanner.read_to = lsn.to_bytes(8)

    def filtered(self, messages: Sequence[bytes]) -> dict[int, RowMessage]:
        """Return the changes among messages whose images must be compared with row filters, by place."""
        results: dict[int, RowMessage] = {}
        for at, data in enumerate(messages):
            if data[:1] == b"R" or (data[:1] in _OPERATIONS and data[1:5] in self._compared):
                message = self._decoder.decode(data)
                if type(message) is RowMessage:
                    results[at] = message
                elif type(message) is RelationMessage:
                    self._note_filters(message, data[1:5])
        return results

    def feed(
        self,
        messages: Sequence[bytes],
        compared: Mapping[int, tuple[RowMessage, Belonging]] | None = None,
    ) -> None:
        """Process messages.

        Args:
            compared: the changes that `filtered` returned, each with the result of its comparison.

        Raises:
            RemoteProtocolError: a message cannot be read.
            ArticleError: an article does not fit the log's description of its table.
        """
        block, scan, compared = list(messages), self._scanner.scan, compared or {}
        at = 0
        while (at := scan(block, at)) < len(block):
            if at in compared:
                self._take(block[at], *compared[at])
            else:
                self._take(block[at], self._decoder.decode(block[at]))
            at += 1

    def _take(self, data: bytes, message: Decoded, belonging: Belonging = ()) -> None:
        """Process a message that the scanner does not handle."""
        scanner = self._scanner
        if type(message) is RowMessage:
            if message.relation.oid in self._own:
                if not scanner.dropping:
                    self._add(self._take_own(message), 0)
            elif not scanner.silent:
                made = self.builder.commands(message, belonging)
                if not made:
                    self.passed_over, relation = True, message.relation
                    if self.has_calls:
                        self._brackets.changed(article_name(relation.schema, relation.name))
                self._add(made, self._brackets.shift)
        elif type(message) is BeginMessage:
            scanner.begin(data)
            self._brackets.begin(message.lsn)
        elif type(message) is CommitMessage:
            self._commit(data)
        elif type(message) is RelationMessage:
            self._announced(message, data[1:5])
        elif type(message) is TruncateMessage and not scanner.dropping:
            self._truncated(message)

    def _add(self, commands: Sequence[Command], shift: int) -> None:
        for article, code, hashkey, text in commands:
            self._scanner.add(_CODES[(article + shift) * 100 + code], _HASHKEYS[hashkey], text)

    def take(self) -> StoredBatch:
        """Remove and return the complete transactions."""
        batch, self._batch = self._batch, StoredBatch()
        scanner = self._scanner
        batch.read_to, batch.end_lsn = self.read_to, self.end_lsn
        batch.time_us = int.from_bytes(scanner.last_begin[9:17], signed=True)
        batch.horizon = self.horizon
        batch.fallbacks, self._brackets.fallbacks = self._brackets.fallbacks, []
        batch.transactions, batch.commands = len(scanner.counts), sum(scanner.counts)
        batch.blocks = list(blocks(self._publisher, scanner))
        scanner.forget()
        self.passed_over = False
        return batch

    def take_part(self) -> StoredPart:
        """Remove and return the received part of the current transaction.

        Call it only while no complete transaction is kept: the store has the order of the log.
        """
        scanner = self._scanner
        assert not scanner.whole
        self._brackets.made(map(int4_from, set(scanner.codes)))
        part = parts(self._publisher, scanner)
        scanner.forget_part(len(scanner.codes), len(part.blocks))
        return part

    # -- single messages --------------------------------------------------------------------------

    def _commit(self, data: bytes) -> None:
        """Complete a transaction that has markers or messages, or whose end matters to calls."""
        scanner = self._scanner
        if scanner.dropping:
            self._brackets.passed(scanner.xid)
        else:
            if self.has_calls:
                self._brackets.made(map(int4_from, set(scanner.codes[scanner.whole :])))
            self._brackets.commit(scanner.xid)
            if scanner.count:
                self._batch.tokens += self._tokens
                if self._remarked and scanner.parts:
                    self._batch.remarked.append((self._lsn, scanner.originator))
        scanner.commit(data)
        self._marks, self._remarked, self._tokens = (), False, ()

    @property
    def _lsn(self) -> int:
        """Commit LSN of the current transaction."""
        return int.from_bytes(self._scanner.begun[1:9])

    def _announced(self, relation: RelationMessage, oid: bytes) -> None:
        scanner = self._scanner
        is_own = relation.schema == SCHEMA and relation.name in _OWN
        if is_own:
            self._own[relation.oid] = relation
            scanner.own.add(oid)
        else:
            self._own.pop(relation.oid, None)
            scanner.own.discard(oid)
        self._note_filters(relation, oid)
        for letter, operation in _OPERATIONS.items():
            scanner.plans.pop(letter + oid, None)
            if not is_own:
                rows = self.builder.sole_call(relation, operation)
                if rows is not None:
                    scanner.plans[letter + oid] = rows.plan(operation)

    def _note_filters(self, relation: RelationMessage, oid: bytes) -> None:
        if self.builder.filtered(relation):
            self._compared.add(oid)
        else:
            self._compared.discard(oid)

    def _truncated(self, message: TruncateMessage) -> None:
        emptied = [
            article_name(relation.schema, relation.name)
            for relation in message.relations
            if relation.oid not in self._own
        ]
        self._batch.truncated += [(self._lsn, table) for table in emptied]
        for table in emptied:
            self._brackets.changed(table)

    def _take_own(self, change: RowMessage) -> Sequence[Command]:
        """Process a branch marker, a call marker or a message: an insert; deletes by clean-up are ignored."""
        self._scanner.watched = True
        if change.new is None or change.operation != "ins":
            return ()
        columns = [column.name for column in change.relation.columns]
        row = dict(zip(columns, change.new, strict=True))
        if change.relation.name == "branch_marker":
            self._mark(row)
            return ()
        if change.relation.name == "call_marker":
            made = self._brackets.marked(row, remarked=self._remarked)
            self._scanner.silent = self._brackets.silent
            self._scanner.beside = self._brackets.shift != 0
            return made
        if row["kind"] == b"procedure":
            self.passed_over = True  # the writer must be noted even if there is no command
            return self._brackets.defined(row["body"] or b"{}")
        kind = _POSTED_TYPES.get(row["kind"] or b"")
        if kind is None:
            return ()
        if kind == CommandType.TRACER_TOKEN:
            time_us = int.from_bytes(self._scanner.begun[9:17], signed=True)
            self._tokens += (TracerToken(id=int(row["id"] or 0), time_us=time_us),)
        return ((0, kind, 0, row["body"] or b"{}"),)

    def _mark(self, row: Mapping[str, bytes | None]) -> None:
        """Process a branch marker: the last one of a transaction counts, as in the original; their number is kept."""
        role = row["originator"]
        if role is None or row["fence"] == b"t":
            return
        number = self._originators.get(role, 0)
        if not number:
            self._batch.unknown.add(role.decode())
        if role not in self._marks:
            self._marks += (role,)
        scanner = self._scanner
        scanner.marks = len(self._marks)
        if scanner.count and number != scanner.originator:
            self._remarked = True
        scanner.originator = number
