"""SERIALIZABLE: read-write dependencies between transactions, and the serialization errors that they cause.

The rules are those of PostgreSQL's predicate.c: a transaction with a read-write conflict in and one out is a pivot;
it must not commit if the transaction to which its conflict out leads has committed first. Reads are of rows by key,
of the gap of a missing key, or of whole tables. Read-only optimisations are omitted: they only save work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from twopc.sim.model.node.transactions import ABORTED, COMMITTED, TopXact
from twopc.sim.model.values import SqlError, Values

#: Key that stands for a read of a whole table.
ALL: Values = ("all",)
#: Key that stands for a read of a gap: in a small table, of the only page of its index, which gets every new key.
GAP: Values = ("gap",)


class SerializableXact:
    """The reads, writes and conflicts of one serializable transaction."""

    __slots__ = ("commit", "doomed", "ins", "no", "outs", "reads", "ready", "top", "writes")

    def __init__(self, top: TopXact, no: int) -> None:
        self.top = top
        self.no = no
        """Number of the last commit that the transaction sees."""
        self.reads: dict[str, set[Values]] = {}
        self.writes: dict[str, set[Values]] = {}
        self.ins: list[SerializableXact] = []
        """Transactions that read rows without seeing this transaction's writes of them."""
        self.outs: list[SerializableXact] = []
        self.ready = 0
        """Position in the order in which transactions passed `check_commit`; 0: not yet."""
        self.commit = 0
        self.doomed = False


class Ssi:
    """The serializable transactions of a node that can still conflict.

    Args:
        notify: called with each use, to notify the search.
    """

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        self._all: dict[TopXact, SerializableXact] = {}
        self._order = 0

    def begin(self, top: TopXact, no: int) -> None:
        """Register a transaction that has taken its snapshot."""
        self._notify()
        top.ssi = self._all[top] = SerializableXact(top, no)

    def read(self, own: SerializableXact, table: str, keys: Iterable[Values]) -> None:
        """Register reads of rows by key, or `ALL`. Raise 40001."""
        self._notify()
        known = own.reads.setdefault(table, set())
        for key in keys:
            if key in known:
                continue
            known.add(key)
            if key == GAP:
                continue  # only a later insert can conflict
            for other in self._concurrent(own):
                written = other.writes.get(table)
                if written and (key == ALL or key in written):
                    self._conflict(own, other, own)

    def check_read(self, own: SerializableXact) -> None:
        """Raise 40001 if a transaction that reads a row is doomed."""
        self._notify()
        self._check_doomed(own, "conflict out checking")

    def wrote(self, own: SerializableXact, table: str, keys: Iterable[Values]) -> list[Values]:
        """Register writes of rows with these keys; return the keys that are new. Raise 40001."""
        self._notify()
        self._check_doomed(own, "conflict in checking")
        known = own.writes.setdefault(table, set())
        new = [key for key in keys if key not in known]
        known.update(new)
        for other in self._concurrent(own):
            read = other.reads.get(table)
            if read and (ALL in read or not read.isdisjoint(known)):
                self._conflict(other, own, own)
        return new

    def check_commit(self, own: SerializableXact) -> None:
        """Raise 40001 if a transaction must not commit or prepare."""
        self._notify()
        self._check_doomed(own, "commit attempt")
        for reader in own.ins:
            if reader.commit or reader.doomed:
                continue
            for far in reader.ins:
                if far is own or not (far.commit or far.doomed):
                    if reader.ready:
                        raise _failure("commit attempt with conflict in from prepared pivot")
                    reader.doomed = True
                    break
        self._order += 1
        own.ready = self._order

    def end(self, top: TopXact) -> None:
        """Note the end of a transaction; forget those that no running transaction overlaps."""
        self._notify()
        own = top.ssi
        if top.state == COMMITTED:
            self._order += 1
            own.commit = self._order
        else:
            self._drop(own)
        running = [one.no for one in self._all.values() if not one.commit]
        oldest = min(running, default=None)
        for one in list(self._all.values()):
            if one.commit and (oldest is None or one.top.commit_no <= oldest):
                self._all.pop(one.top, None)

    def _drop(self, own: SerializableXact) -> None:
        self._all.pop(own.top, None)
        for other in self._all.values():
            if own in other.ins:
                other.ins.remove(own)
            if own in other.outs:
                other.outs.remove(own)

    def _concurrent(self, own: SerializableXact) -> list[SerializableXact]:
        return [
            other
            for other in self._all.values()
            if other is not own
            and other.top.state != ABORTED
            and not (other.commit and other.top.commit_no <= own.no)
            and not (own.commit and own.top.commit_no <= other.no)
        ]

    @staticmethod
    def _check_doomed(own: SerializableXact, during: str) -> None:
        if own.doomed:
            raise _failure(f"identification as a pivot, during {during}")

    def _conflict(
        self, reader: SerializableXact, writer: SerializableXact, own: SerializableXact
    ) -> None:
        if writer in reader.outs or reader.doomed or writer.doomed:
            return
        if self._is_dangerous(reader, writer):
            if own is writer:
                raise _failure("identification as a pivot, during conflict in checking")
            if writer.ready:
                raise _failure("conflict out to pivot, during read")
            writer.doomed = True
        reader.outs.append(writer)
        writer.ins.append(reader)

    @staticmethod
    def _is_dangerous(reader: SerializableXact, writer: SerializableXact) -> bool:
        for far in writer.outs:
            if far.ready and (
                (not reader.commit or far.ready <= reader.commit)
                and (not writer.commit or far.ready <= writer.commit)
            ):
                return True
        if writer.ready:
            for far in reader.ins:
                if not far.doomed and (not far.commit or far.commit >= writer.ready):
                    return True
        return False


def _failure(reason: str) -> SqlError:
    return SqlError(
        "40001",
        "could not serialize access due to read/write dependencies among transactions",
        detail=f"Reason code: Canceled on {reason}.",
        hint="The transaction might succeed if retried.",
    )
