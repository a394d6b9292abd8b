"""Commands straight from messages of the log, where what a message looks like was learned from others.

Most changes of a table look like those before: the same columns change, and values have few different lengths.
A regular expression then does in one call what decoding, comparing and picking values do in many. Whatever it
does not match takes the way through `Decoder` and `CommandBuilder`, which say what is right.
"""

from __future__ import annotations

from twopc.publisher.commands.builder import CommandBuilder
from twopc.publisher.commands.learned_shapes import (
    ColumnSample,
    Read,
    Shape,
    Tally,
    reading,
    shape_of,
)
from twopc.publisher.commands.rows import Command, LoggedRows
from twopc.publisher.pgoutput import Decoded, Decoder, RelationMessage, RowMessage

#: After so many changes of one shape, and so many more per column, an expression is made for it: about when
#: they have cost as much as making it does.
_LEARNED_AFTER = 100
_LEARNED_AFTER_PER_COLUMN = 10
#: Once there are expressions, of those that they do not match one in so many is looked at.
_SAMPLED = 8
#: So many shapes of one operation are kept at a time, and so many counted.
_READS_MAX = 8
_COUNTED_MAX = 64
#: After so many changes that no expression matched it is judged whether having them pays.
_JUDGED_AFTER = 2048
#: Where it does not pay, it is tried again after so many changes.
_RESTED_FOR = 100_000
#: Wider tables would need expressions that take too long to make.
_WIDTH_MAX = 64


class CommandReader:
    """Reads the messages of a session in their order, as a `Decoder`, but changes as commands where it can.

    Args:
        decoder: knows the relations announced; nothing else reads this session with it.
        builder: of the articles.
    """

    __slots__ = ("_builder", "_decode", "_learners")

    def __init__(self, decoder: Decoder, builder: CommandBuilder) -> None:
        self._builder = builder
        self._decode = decoder.decode
        #: By the operation's letter and the relation's oid, as messages begin. None: nothing to be learned.
        self._learners: dict[bytes, _Learner | None] = {}

    def read(self, data: bytes) -> Decoded | Command:
        """The message in `data`; a plain tuple is the only command of a change.

        A `RowMessage` is to be given to `CommandBuilder.commands`.

        Raises:
            RemoteProtocolError: as `Decoder.decode`.
        """
        head = data[:5]
        learner = self._learners.get(head)
        if learner is not None:
            for read in learner.reads:
                command = read(data)
                if command is not None:
                    if read is not learner.reads[0]:  # the next one is likely to be like this one
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
        # a key may be generated, and then is none of the values
        if rows is None or not {*rows.key_places, rows.version} <= {*rows.value_places}:
            return None
        return _Learner(rows, change, oid)

    def _announced(self, relation: RelationMessage, oid: bytes) -> None:
        """What was learned of a relation that looked otherwise is not true of this one."""
        for letter in (b"I", b"U", b"D"):
            learner = self._learners.get(letter + oid)
            if learner is None or learner.relation is not relation:
                self._learners.pop(letter + oid, None)


class _Learner:
    """What is learned of the changes of one relation by one operation."""

    __slots__ = (
        "_counted", "_kept", "_missed", "_oid", "_operation", "_resting", "_rows", "_seen", "_tally",
        "reads", "relation",
    )  # fmt: skip

    def __init__(self, rows: LoggedRows, change: RowMessage, oid: bytes) -> None:
        self.relation = change.relation
        self.reads: list[Read] = []
        """What to try, in this order."""
        self._rows = rows
        self._oid = oid
        self._operation = change.operation
        self._tally = Tally()
        self._kept: dict[Shape, Read] = {}
        self._resting = 0
        self._forget()

    def _forget(self) -> None:
        self.reads.clear()
        self._kept.clear()
        self._seen = [ColumnSample() for _ in self.relation.columns]
        self._counted: dict[Shape, int] = {}
        self._tally.hits = self._missed = 0

    def learn(self, change: RowMessage) -> None:
        """From a change that no expression has matched."""
        if self._resting:
            self._resting -= 1
            return
        self._missed += 1
        if self._missed >= _JUDGED_AFTER:
            # what is saved by a hit pays for trying about four expressions in vain, with something to spare
            if self._tally.hits * 4 < self._missed * max(1, len(self.reads)):
                self._forget()
                self._resting = _RESTED_FOR
                return
            self._tally.hits = self._missed = 0
        if self.reads and self._missed % _SAMPLED:
            return
        images = [image for image in (change.old, change.new) if image is not None]
        if any(len(image) != len(self._seen) for image in images):
            return  # not as its relation says: whoever makes a command of it will find out
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
        """What was made for this shape before lacks lengths that have come since."""
        made = reading(self._rows, self._oid, self._operation, shape, self._seen, self._tally)
        if shape in self._kept:
            self.reads.remove(self._kept[shape])
        elif len(self.reads) == _READS_MAX:
            last = self.reads.pop()
            self._kept = {each: read for each, read in self._kept.items() if read is not last}
        elif not self.reads:
            self._tally.hits = self._missed = 0  # only now can there be hits
        self._kept[shape] = made
        self.reads.insert(0, made)
