"""Lock modes of rows and of tables, and their conflicts, as in PostgreSQL."""

from __future__ import annotations

KEY_SHARE, SHARE, NO_KEY_UPDATE, UPDATE = 1, 2, 3, 4

#: Row modes that conflict with each mode.
CONFLICTS: dict[int, frozenset[int]] = {
    KEY_SHARE: frozenset({UPDATE}),
    SHARE: frozenset({NO_KEY_UPDATE, UPDATE}),
    NO_KEY_UPDATE: frozenset({SHARE, NO_KEY_UPDATE, UPDATE}),
    UPDATE: frozenset({KEY_SHARE, SHARE, NO_KEY_UPDATE, UPDATE}),
}

#: Modes of table locks as bits, weakest first, with the modes that conflict with each.
ACCESS_SHARE, ROW_SHARE, ROW_EXCLUSIVE, SHARE_UPDATE = 1, 2, 4, 8
TABLE_SHARE, SHARE_ROW, EXCLUSIVE, ACCESS_EXCLUSIVE = 16, 32, 64, 128
TABLE_CONFLICTS: dict[int, int] = {
    ACCESS_SHARE: ACCESS_EXCLUSIVE,
    ROW_SHARE: EXCLUSIVE | ACCESS_EXCLUSIVE,
    ROW_EXCLUSIVE: TABLE_SHARE | SHARE_ROW | EXCLUSIVE | ACCESS_EXCLUSIVE,
    SHARE_UPDATE: SHARE_UPDATE | TABLE_SHARE | SHARE_ROW | EXCLUSIVE | ACCESS_EXCLUSIVE,
    TABLE_SHARE: ROW_EXCLUSIVE | SHARE_UPDATE | SHARE_ROW | EXCLUSIVE | ACCESS_EXCLUSIVE,
    SHARE_ROW: 4 | 8 | 16 | 32 | 64 | 128,
    EXCLUSIVE: 2 | 4 | 8 | 16 | 32 | 64 | 128,
    ACCESS_EXCLUSIVE: 255,
}
TABLE_MODES = {
    "access share": ACCESS_SHARE, "row share": ROW_SHARE, "row exclusive": ROW_EXCLUSIVE,
    "share update exclusive": SHARE_UPDATE, "share": TABLE_SHARE,
    "share row exclusive": SHARE_ROW, "exclusive": EXCLUSIVE,
    "access exclusive": ACCESS_EXCLUSIVE,
}  # fmt: skip
TABLE_NAMES = {bit: "".join(w.title() for w in name.split()) for name, bit in TABLE_MODES.items()}
ROW_NAMES = {
    KEY_SHARE: "AccessShare", SHARE: "RowShare", NO_KEY_UPDATE: "Exclusive", UPDATE: "AccessExclusive",
}  # fmt: skip
