"""Commands directly from messages of the log, by expressions learned from earlier messages.

Most changes of a table resemble earlier ones: the same columns change, and values have few different lengths.
One call of a regular expression then replaces many calls for decoding, comparing and picking values. Messages
that it does not match are processed by `Decoder` and `CommandBuilder`, which define the correct result.
"""

from __future__ import annotations

from twopc.publisher.commands.builder import CommandBuilder
from twopc.publisher.commands.learned_shapes import (
    ColumnSample,
    Read,
    Shape,
    reading,
    shape_of,
)
from twopc.publisher.commands.rows import Command, LoggedRows
from twopc.publisher.pgoutput import Decoded, Decoder, RelationMessage, RowMessage

#: Number of changes of one shape, and additional number per column, after which an expression is made for it:
#: approximately when they have cost as much as making the expression.
_LEARNED_AFTER = 100
_LEARNED_AFTER_PER_COLUMN = 10
#: Once there are expressions, one in this number of unmatched changes is examined.
_SAMPLED = 8
#: Maximum number of shapes of one operation with expressions, and of shapes counted.
_READS_MAX = 8
_COUNTED_MAX = 64
#: Number of unmatched changes after which to judge whether the expressions pay off.
_JUDGED_AFTER = 2048
#: Number of changes after which expressions are tried again if they did not pay off.
_RESTED_FOR = 100_000
#: Maximum number of columns; expressions of wider tables would take too long to make.
_WIDTH_MAX = 64


class CommandReader:
    """Reads the messages of a session in order, as a `Decoder`, but returns changes as commands if possible.

    Args:
        decoder: knows the relations announced; only this reader may use it for the session.
        builder: of the articles.
    """

    __slots__ = ("_builder", "_decode", "_learners")

    def __init__(self, decoder: Decoder, builder: CommandBuilder) -> None:
        self._builder = builder
        self._decode = decoder.decode
        #: By the first bytes of a message: the operation's letter and the relation's OID. None if unsuitable.
        self._learners: dict[bytes, _Learner | None] = {}

    def read(self, data: bytes) -> Decoded | Command:
        """Return the message in `data`; a plain tuple is the only command of a change.

        The caller must pass a `RowMessage` to `CommandBuilder.commands`.

        Raises:
            RemoteProtocolError: as `Decoder.decode`.
        """
        head = data[:5]
        learner = self._learners.get(head)
        if learner is not None:
            for read in learner.reads:
                command = read(data)
                if command is not None:
                    learner.hits += 1
                    # the next message is likely to match the same expression
                    if read is not learner.reads[0]:
                        learner.reads.remove(read)
                        learner.reads.insert(0, read)
                    return command
        message = self._decode(data)
        if type(message) is RowMessage:
            if learner is not None:
                learner.learn(message)
            elif head not in self._learners:
                self._learners[head] = self._learner(message, head[1:])
        elif type(message) is RelationMessage:
            self._announced(message, head[1:])
        return message

    def _learner(self, change: RowMessage, oid: bytes) -> _Learner | None:
        if len(change.relation.columns) > _WIDTH_MAX:
            return None
        rows = self._builder.sole_call(change.relation, change.operation)
        # a generated key is not among the values
        if rows is None or not {*rows.key_places, rows.version} <= {*rows.value_places}:
            return None
        return _Learner(rows, change, oid)

    def _announced(self, relation: RelationMessage, oid: bytes) -> None:
        """Drop the expressions of a relation that is announced with another definition."""
        for letter in (b"I", b"U", b"D"):
            learner = self._learners.get(letter + oid)
            if learner is None or learner.relation is not relation:
                self._learners.pop(letter + oid, None)


class _Learner:
    """Learns expressions for the changes of one relation by one operation."""

    __slots__ = (
        "_counted", "_kept", "_missed", "_oid", "_operation", "_resting", "_rows", "_seen",
        "hits", "reads", "relation",
    )  # fmt: skip

    def __init__(self, rows: LoggedRows, change: RowMessage, oid: bytes) -> None:
        self.relation = change.relation
        self.reads: list[Read] = []
        """Functions to try, in this order."""
        self.hits = 0
        """Number of messages that a function has read."""
        self._rows = rows
        self._oid = oid
        self._operation = change.operation
        self._kept: dict[Shape, Read] = {}
        self._resting = 0
        self._forget()

    def _forget(self) -> None:
        self.reads.clear()
        self._kept.clear()
        self._seen = [ColumnSample() for _ in self.relation.columns]
        self._counted: dict[Shape, int] = {}
        self.hits = self._missed = 0

    def learn(self, change: RowMessage) -> None:
        """Learn from a change that no expression has matched."""
        if self._resting:
            self._resting -= 1
            return
        self._missed += 1
        if self._missed >= _JUDGED_AFTER:
            # the saving of one hit exceeds the cost of about four failed matches
            if self.hits * 4 < self._missed * max(1, len(self.reads)):
                self._forget()
                self._resting = _RESTED_FOR
                return
            self.hits = self._missed = 0
        if self.reads and self._missed % _SAMPLED:
            return
        images = [image for image in (change.old, change.new) if image is not None]
        if any(len(image) != len(self._seen) for image in images):
            return  # does not fit its relation: making a command of the change raises the error
        shape = shape_of(self._rows, change)
        if shape is None:
            return
        for image in images:
            for seen, value in zip(self._seen, image, strict=True):
                seen.add(value)
        if shape not in self._counted and len(self._counted) >= _COUNTED_MAX:
            self._counted.clear()
        count = self._counted[shape] = self._counted.get(shape, 0) + 1
        if count >= _LEARNED_AFTER + _LEARNED_AFTER_PER_COLUMN * len(self._seen):
            del self._counted[shape]
            self._make(shape)

    def _make(self, shape: Shape) -> None:
        """Make an expression for a shape, replacing an earlier one that lacks newer lengths."""
        made = reading(self._rows, self._oid, self._operation, shape, self._seen)
        if shape in self._kept:
            self.reads.remove(self._kept[shape])
        elif len(self.reads) == _READS_MAX:
            last = self.reads.pop()
            self._kept = {each: read for each, read in self._kept.items() if read is not last}
        elif not self.reads:
            self.hits = self._missed = 0  # no hits were possible before
        self._kept[shape] = made
        self.reads.insert(0, made)
