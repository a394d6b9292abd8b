"""Random transactions on one article, and the rows after each, computed by a dictionary."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from twopc.names import VERSION_COLUMN
from twopc.propagation import bitmask, record_text

#: After this position the article has an additional column.
WIDER_AFTER = 500

Row = list[str | None]


def record(values: Row) -> str:
    return record_text([None if each is None else each.encode() for each in values]).decode()


def article(
    shape: int, first_seqno: int, columns: list[str], number: int = 1
) -> tuple[object, ...]:
    kinds = ["text"] * len(columns)
    at = len(columns) - 1
    formats = ("CALL", "SCALL", "CALL")
    return (number, shape, first_seqno, "public", "t", columns, kinds, [0], at, None, *formats, [])


ARTICLES = [
    article(1, 0, ["id", "b", VERSION_COLUMN]),
    article(2, WIDER_AFTER, ["id", "b", "c", VERSION_COLUMN]),
]


@dataclass
class Drawn:
    """Transactions 4, 8, 12 …; the base has those that its snapshot saw, one of which overtook others."""

    seed: int
    length: int = 200
    commands: list[tuple[object, ...]] = field(default_factory=list)
    transactions: list[tuple[object, ...]] = field(default_factory=list)
    states: dict[int, dict[str, Row]] = field(default_factory=dict)
    base: list[tuple[object, ...]] = field(default_factory=list)

    #: Saw transactions 100 … 109 and 112, but not 110 and 111.
    snapshot = "110:113:110,111"

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        rows: dict[str, Row] = {str(key): [str(key), "0", "v"] for key in range(5)}
        for number in range(1, self.length):
            seqno, xid = 4 * number, 99 + number
            if seqno > WIDER_AFTER and seqno - 4 <= WIDER_AFTER:
                for row in rows.values():
                    row.insert(2, None)
            # the transaction that overtook others changes other rows than those
            keys = range(30, 40) if xid == 112 else range(20)
            count = sum(
                self._change(rows, keys, (seqno, place), f"v{number}.{place}")
                for place in range(1, self._chance.randrange(2, 4))
            )
            self.transactions.append((seqno, xid, None, None, 1, count, 0, None))
            self.states[seqno] = {key: list(row) for key, row in rows.items()}
            if xid == 109:
                in_base = {key: list(row) for key, row in rows.items()}
            if xid == 112:
                in_base |= {k: list(row) for k, row in rows.items() if int(k) in keys}
        about = (1, self.snapshot, 36)
        self.base = [(1, [key], row, *about) for key, row in in_base.items()]

    def _change(self, rows: dict[str, Row], keys: range, at: tuple[int, int], version: str) -> int:
        """Make one command, or none; return the number."""
        of = self._chance
        width = 4 if at[0] > WIDER_AFTER else 3
        known = [key for key in rows if int(key) in keys]
        free = [str(key) for key in keys if str(key) not in rows]
        drawn = of.random()
        if free and (drawn < 0.25 or not known):
            row: Row = [of.choice(free), of.choice("123"), *([None] * (width - 3)), version]
            rows[str(row[0])] = row
            self.commands.append((*at, 1, 1, None, 0, record(row)))
            return 1
        key = of.choice(known)
        before = rows.pop(key)
        if drawn < 0.4:
            self.commands.append((*at, 1, 3, None, 0, record([key])))
            return 1
        after = [*before[:-1], version]
        if of.random() < 0.7:
            after[1] = of.choice([None, "5", 'x "y"'])
        if width == 4 and of.random() < 0.5:
            after[2] = of.choice([None, "c"])
        if free and of.random() < 0.2:
            after[0] = of.choice(free)
        differs = [one != other for one, other in zip(before, after, strict=True)]
        mask = "\\x" + bitmask([n for n, each in enumerate(differs) if each], width).hex()
        values = [value if each else None for value, each in zip(after, differs, strict=True)]
        self.commands.append((*at, 1, 2, None, 0, record([*values, key, mask])))
        rows[str(after[0])] = after
        return 1
