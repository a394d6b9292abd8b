"""Converts messages of pgoutput to columns of commands, for each change of each transaction.

Handles the usual cases: transactions, and changes of relations for which there is a `RowPlan`. Everything else, and
whatever does not match its plan exactly, is left to the caller, which decodes it and may `add` commands.

Pure, typed for mypyc, and imports nothing of ours: see `twopc.core`. Values remain bytes; numbers that are only
passed on remain as they are in messages.

Source: PostgreSQL's documentation, "Logical Replication Message Formats".
"""

from __future__ import annotations

from typing import Final, final
from zlib import crc32

_BEGIN: Final = 66
_COMMIT: Final = 67
_INSERT: Final = 73
_UPDATE: Final = 85
_DELETE: Final = 68
_BEGIN_BYTES: Final = 21
_COMMIT_BYTES: Final = 26
#: Kinds of row images, and of values in them.
_NEW: Final = 78
_OLD: Final = 79
_KEY: Final = 75
_TEXT: Final = 116
_NULL: Final = 110
_TOAST: Final = 117
_QUOTE: Final = 34
_BACKSLASH: Final = 92
#: Represents a new value that equals the old one; compared by identity.
_SAME: Final = bytes(bytearray(b"(same)"))
#: Maximum number of bitmasks cached per relation.
_MASKS_MAX: Final = 1024
#: Approximate size of a command in memory besides its text.
COMMAND_BYTES: Final = 64

#: Roles of a column.
_VALUE: Final = 1
_KEYED: Final = 2
_VERSION: Final = 4


def int4_of(value: int) -> bytes:
    """Return an integer as an element of an array in binary format."""
    return b"\0\0\0\4" + value.to_bytes(4, "big", signed=True)


def int4_from(element: bytes) -> int:
    """Return the integer from which `int4_of` made an element."""
    return int.from_bytes(element[4:], "big", signed=True)


@final
class RowPlan:
    """How changes of one relation by one operation become commands of one article: CALL, or SCALL for an update.

    Args:
        code: the command's code, as an element of an array in binary format.
        beside: the same for a row that is sent in addition to a call.
        width: number of columns of the relation in the log.
        values, keys: positions of the article's values and key among them.
        version: position of the row version.
        hashkeys: an element of an array for each stream.
    """

    def __init__(
        self, *, code: bytes, beside: bytes, width: int, values: list[int], keys: list[int], version: int,
        hashkeys: list[bytes],
    ) -> None:  # fmt: skip
        self.code = code
        self.beside = beside
        self.width = width
        self.values = values
        self.keys = keys
        self.version = version
        self.hashkeys = hashkeys
        self.masks: dict[int, bytes] = {}
        roles = [0] * width
        for place in values:
            roles[place] |= _VALUE
        for place in keys:
            roles[place] |= _KEYED
        roles[version] |= _VERSION
        self.roles = bytes(roles)

    def mask(self, changed: int) -> bytes:
        """Return the end of an SCALL: the bitmask of the values that it has."""
        made = self.masks.get(changed)
        if made is None:
            if len(self.masks) >= _MASKS_MAX:
                self.masks.clear()
            data = changed.to_bytes(len(self.values) // 8 + 1, "little")
            made = b',"\\\\x' + data.hex().encode() + b'")'
            self.masks[changed] = made
        return made


class CommandScanner:
    """Reads the messages of a session in their order.

    Args:
        read_to: commit LSN of the last stored transaction; everything up to it is dropped.
        next_xid: a current transaction id with its epoch, which the log omits.
        pauses: leave every BEGIN and COMMIT to the caller.
    """

    def __init__(self, read_to: int, next_xid: int, *, pauses: bool) -> None:
        self.plans: dict[bytes, RowPlan] = {}
        """Plans by the beginning of a message: its operation and relation."""
        self.own: set[bytes] = set()
        """Relations, by oid, whose changes are left to the caller even if `silent`."""
        #: commands held; each has two entries in `texts`, the first of which is the length
        self.codes: list[bytes] = []
        self.hashkeys: list[bytes] = []
        self.texts: list[bytes] = []
        self.text_bytes = 0
        #: complete transactions held
        self.begins: list[bytes] = []
        self.xids: list[int] = []
        self.counts: list[int] = []
        self.lengths: list[int] = []
        self.marked: dict[int, tuple[int, int, int, int]] = {}
        """By position: originator, marks, stored commands and stored parts, where these are not all 0."""
        self.whole = 0
        """Number of commands held that belong to them."""
        self.read_to = read_to.to_bytes(8, "big")
        self.next_xid = next_xid
        self.highest_xid = 0
        """The highest id of the transactions read."""
        self.last_begin = bytes(_BEGIN_BYTES)
        """BEGIN of the last complete transaction that was not dropped, stored or not, with commands or without."""
        self.last_commit = bytes(_COMMIT_BYTES)
        """COMMIT of the last complete transaction, including dropped ones."""
        #: the transaction in progress
        self.open = False
        self.begun = bytes(_BEGIN_BYTES)
        self.xid = next_xid
        self.dropping = False
        self.silent = False
        """Its changes are skipped."""
        self.beside = False
        """Its changes are sent in addition to a call."""
        self.watched = False
        """Its COMMIT is left to the caller."""
        self.originator = 0
        self.marks = 0
        self.stored = 0
        self.parts = 0
        self.length = 0
        """Size of its texts in bytes, including those already stored."""
        self._pauses = pauses

    @property
    def count(self) -> int:
        """Number of commands of the transaction in progress."""
        return self.stored + len(self.codes) - self.whole if self.open else 0

    @property
    def size(self) -> int:
        """Approximate number of bytes held."""
        return self.text_bytes + COMMAND_BYTES * len(self.codes)

    def scan(self, messages: list[bytes], at: int) -> int:
        """Read messages from a position on; return that of the first one left to the caller, or their number."""
        count = len(messages)
        last = b""
        plan: RowPlan | None = None
        while at < count:
            data = messages[at]
            kind = data[0] if data else 0
            if kind in (_UPDATE, _INSERT, _DELETE):
                head = data[:5]
                if head != last:
                    last = head
                    plan = self.plans.get(head)
                if self.silent:
                    if self.dropping or data[1:5] not in self.own:
                        at += 1
                        continue
                    return at
                if plan is None:
                    return at
                if kind == _UPDATE:
                    if not self._update(plan, data):
                        return at
                elif not self._single(plan, data, kind):
                    return at
            elif self._pauses:
                return at
            elif kind == _BEGIN:
                if len(data) != _BEGIN_BYTES:
                    return at
                self.begin(data)
            elif kind == _COMMIT:
                if len(data) != _COMMIT_BYTES or self.watched:
                    return at
                self.commit(data)
            else:
                return at
            at += 1
        return at

    def begin(self, data: bytes) -> None:
        """Begin a transaction."""
        low = data[17] << 24 | data[18] << 16 | data[19] << 8 | data[20]
        near = self.next_xid
        # the nearest id with these low bits
        self.xid = self.next_xid = near + ((low - near + 0x80000000) & 0xFFFFFFFF) - 0x80000000
        self.begun = data
        self.dropping = self.silent = data[1:9] <= self.read_to
        self.open = True

    def commit(self, data: bytes) -> None:
        """Complete the transaction."""
        count = self.count
        self.last_commit = data
        self.open = False
        if self.xid > self.highest_xid:
            self.highest_xid = self.xid
        if not self.dropping:
            self.read_to = self.begun[1:9]
            self.last_begin = self.begun
            if count:
                if self.parts or self.marks or self.originator:
                    self.marked[len(self.counts)] = (
                        self.originator, self.marks, self.stored, self.parts,
                    )  # fmt: skip
                self.begins.append(self.begun)
                self.xids.append(self.xid)
                self.counts.append(count)
                self.lengths.append(self.length)
            self.whole = len(self.codes)
        self.watched = self.beside = self.silent = self.dropping = False
        self.originator = self.marks = self.stored = self.parts = self.length = 0

    def add(self, code: bytes, hashkey: bytes, text: bytes) -> None:
        """Add a command to the transaction in progress; see `RowPlan`."""
        size = len(text)
        self.length += size
        self.text_bytes += size
        self.codes.append(code)
        self.hashkeys.append(hashkey)
        self.texts.append(size.to_bytes(4, "big"))
        self.texts.append(text)

    def forget(self) -> None:
        """Discard the complete transactions and their commands."""
        self.begins, self.xids, self.counts, self.lengths = [], [], [], []
        self.marked = {}
        self._forget_commands(self.whole)
        self.whole = 0

    def forget_part(self, commands: int, parts: int) -> None:
        """Discard the first commands of the transaction in progress, which are stored in parts."""
        self._forget_commands(commands)
        self.stored += commands
        self.parts += parts

    def _forget_commands(self, count: int) -> None:
        self.codes = self.codes[count:]
        self.hashkeys = self.hashkeys[count:]
        self.texts = self.texts[2 * count :]
        self.text_bytes = 0
        for text in self.texts[1::2]:
            self.text_bytes += len(text)

    # -- changes ----------------------------------------------------------------------------------

    def _single(self, plan: RowPlan, data: bytes, kind: int) -> bool:
        """Convert an insert or a delete; return False to leave it to the caller."""
        if len(data) < 8 or (data[6] << 8 | data[7]) != plan.width:
            return False
        image = data[5]
        inserts = kind == _INSERT
        if image != _NEW if inserts else image not in (_KEY, _OLD):
            return False
        row: list[bytes | None] = [None] * plan.width
        if _read(data, 8, plan, _VALUE | _KEYED if inserts else _KEYED, row) != len(data):
            return False
        pieces: list[bytes] = []
        plain = _QUOTE not in data and _BACKSLASH not in data
        if inserts:
            for place in plan.values:
                _put(pieces, row[place], plain)
        return self._keep(plan, pieces, row, plain, b")", keyed=not inserts)

    def _update(self, plan: RowPlan, data: bytes) -> bool:
        """Convert an update with its whole old row; return False to leave it to the caller."""
        width = plan.width
        end = len(data)
        if end < 8 or data[5] != _OLD or (data[6] << 8 | data[7]) != width:
            return False
        old: list[bytes | None] = [None] * width
        at = _read(data, 8, plan, _KEYED | _VERSION, old)
        if at < 0 or at + 3 > end or data[at] != _NEW or old[plan.version] is None:
            return False
        if (data[at + 1] << 8 | data[at + 2]) != width:
            return False
        at += 3
        before = 8
        roles = plan.roles
        new: list[bytes | None] = [_SAME] * width
        for column in range(width):
            size = _cell(data, at)
            size_before = _cell(data, before)
            if size < 0 or at + size > end:
                return False
            if (
                roles[column] & _VALUE
                and data[at] != _TOAST
                and (size != size_before or data[at : at + size] != data[before : before + size])
            ):
                new[column] = None if size == 1 else data[at + 5 : at + size]
            at += size
            before += size_before
        if at != end:
            return False
        pieces: list[bytes] = []
        plain = _QUOTE not in data and _BACKSLASH not in data
        changed = 0
        bit = 1
        for place in plan.values:
            value = new[place]
            if value is _SAME:
                _put(pieces, None, plain)
            else:
                changed |= bit
                _put(pieces, value, plain)
            bit <<= 1
        return self._keep(plan, pieces, old, plain, plan.mask(changed), keyed=True)

    def _keep(
        self, plan: RowPlan, pieces: list[bytes], row: list[bytes | None], plain: bool, end: bytes, *, keyed: bool
    ) -> bool:  # fmt: skip
        """Add the command of these values, and of the row's key if it is `keyed`; return False if the key is NULL."""
        crc = 0
        first = True
        for place in plan.keys:
            value = row[place]
            if value is None:
                return False
            crc = crc32(value) if first else crc32(value, crc32(b"\0", crc))
            first = False
            if keyed:
                _put(pieces, value, plain)
        pieces.append(end)
        code = plan.beside if self.beside else plan.code
        self.add(code, plan.hashkeys[crc % len(plan.hashkeys)], b"".join(pieces))
        return True


def _put(pieces: list[bytes], value: bytes | None, plain: bool) -> None:
    """Append a value to a record's text."""
    if value is None:
        pieces.append(b"," if pieces else b"(")
        return
    pieces.append(b',"' if pieces else b'("')
    pieces.append(value if plain else value.replace(b"\\", b"\\\\").replace(b'"', b'""'))
    pieces.append(b'"')


def _cell(data: bytes, at: int) -> int:
    """Return the size of a value including its header; -1 if it cannot be read."""
    if at >= len(data):
        return -1
    kind = data[at]
    if kind == _TEXT:
        if at + 5 > len(data):
            return -1
        return 5 + (data[at + 1] << 24 | data[at + 2] << 16 | data[at + 3] << 8 | data[at + 4])
    return 1 if kind in (_NULL, _TOAST) else -1


def _read(data: bytes, at: int, plan: RowPlan, asked: int, row: list[bytes | None]) -> int:
    """Copy the values of these roles from a row; return where it ends, or -1 if it does not match the plan."""
    end = len(data)
    roles = plan.roles
    for column in range(plan.width):
        size = _cell(data, at)
        if size < 0 or at + size > end or data[at] == _TOAST:
            return -1
        if size > 1 and roles[column] & asked:
            row[column] = data[at + 5 : at + size]
        at += size
    return at
