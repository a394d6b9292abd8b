"""Functions of SQL that neither wait nor read tables; and aggregates.

Each is called as ``name: function(context, *values)``. Strict functions return null if an argument is null.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any
from uuid import UUID

from twopc.sim.model.sql import operators, settings
from twopc.sim.model.sql.operators import WIDE
from twopc.sim.model.sql.types import as_text
from twopc.sim.model.values import SqlError, UnsupportedError

Function = Callable[..., Any]


def _setting(c: Any, name: str, missing_ok: Any = False) -> Any:
    value = c.tx.setting(name.lower())
    if value is not None:
        return value
    default = DEFAULTS.get(name.lower())
    if default is not None:
        return default(c) if callable(default) else default
    if "." not in name:
        raise UnsupportedError(name, f"the setting {name}")
    if missing_ok:
        return None
    raise SqlError("42704", f'unrecognized configuration parameter "{name}"')


#: Settings that can be read, each with its value where it has not been set.
DEFAULTS: dict[str, Any] = {
    "session_replication_role": "origin",
    "lock_timeout": lambda c: settings.duration_text(c.tx.node.lock_timeout_s * 1000),
    "transaction_isolation": lambda c: c.tx.level,
    "default_transaction_isolation": "read committed",
    "synchronous_commit": "on",
    "search_path": '"$user", public',
    "application_name": lambda c: c.tx.session.application_name,
    "max_prepared_transactions": lambda c: str(c.tx.node.prepared_max),
}


def _set(c: Any, name: str, value: Any, local: Any) -> Any:
    settings.put(c.tx, name.lower(), "" if value is None else as_text(value), local=bool(local))
    return c.tx.setting(name.lower())


def _now(c: Any) -> datetime:
    return datetime.fromtimestamp(c.tx.top.began, UTC)


def _clock(c: Any) -> datetime:
    return datetime.fromtimestamp(c.tx.node.clock(), UTC)


def _uuid(c: Any) -> UUID:
    node = c.tx.node
    drawn = node.kernel.random(f"uuid:{node.name}").getrandbits(128)
    return UUID(int=(drawn & ~(0xF << 76) & ~(0xC << 60)) | (4 << 76) | (0x8 << 60))


def _current_xid(c: Any) -> int:
    return int(c.tx.assign())


def _round(c: Any, value: Any, digits: int = 0) -> Any:
    if isinstance(value, float):
        return float(round(value))
    return WIDE.quantize(Decimal(value), Decimal(1).scaleb(-digits))


def _whole(rounding: str) -> Function:
    def whole(c: Any, value: Any) -> Any:
        return Decimal(value).to_integral_value(rounding)

    return whole


def _substring(c: Any, text: str, start: int, length: int | None = None) -> str:
    first = start - 1
    end = None if length is None else max(0, first + length)
    return text[max(0, first) : end]


def _notify(c: Any, channel: str, payload: str = "") -> str:
    c.tx.top.notified = True
    return ""


def _export(c: Any) -> str:
    c.tx.top.held.add("snapshot")
    return f"{c.tx.node.commit_no:08X}-1"


def _advisory(scope: str, *, tries: bool) -> Function:
    def take(c: Any, key: int, other: int = 0) -> Any:
        top = c.tx.top if scope == "xact" else None
        done = c.tx.node.advisory.take(key * 2**32 + other, c.tx.session, top)
        if tries:
            return done
        if not done:
            raise UnsupportedError(f"pg_advisory_lock({key})", "waiting for an advisory lock")
        return ""

    return take


def _unlock(c: Any, key: int, other: int = 0) -> bool:
    return bool(c.tx.node.advisory.give(key * 2**32 + other, c.tx.session))


def _position(c: Any, text: str, part: str) -> int:
    return text.find(part) + 1


STRICT: dict[str, Function] = {
    "abs": lambda c, a: abs(a),
    "lower": lambda c, a: a.lower(),
    "upper": lambda c, a: a.upper(),
    "length": lambda c, a: len(a),
    "char_length": lambda c, a: len(a),
    "trim": lambda c, a, b=" ": a.strip(b),
    "btrim": lambda c, a, b=" ": a.strip(b),
    "ltrim": lambda c, a, b=" ": a.lstrip(b),
    "rtrim": lambda c, a, b=" ": a.rstrip(b),
    "repeat": lambda c, a, n: a * max(0, n),
    "replace": lambda c, a, b, d: a.replace(b, d),
    "left": lambda c, a, n: a[:n],
    "right": lambda c, a, n: a[-n:] if n > 0 else a[-n:] if n else "",
    "substring": _substring,
    "substr": _substring,
    "strpos": _position,
    "lpad": lambda c, a, n, b=" ": (b * n + a)[-n:] if len(a) < n else a[:n],
    "md5": lambda c, a: hashlib.md5(a.encode(), usedforsecurity=False).hexdigest(),
    "round": _round,
    "floor": _whole(ROUND_FLOOR),
    "ceil": _whole(ROUND_CEILING),
    "mod": lambda c, a, b: operators.modulo(a, b),
    "pg_notify": _notify,
    "pg_advisory_lock": _advisory("session", tries=False),
    "pg_advisory_xact_lock": _advisory("xact", tries=False),
    "pg_try_advisory_lock": _advisory("session", tries=True),
    "pg_try_advisory_xact_lock": _advisory("xact", tries=True),
    "pg_advisory_unlock": _unlock,
    "array_length": lambda c, a, n: len(a) or None,
    "cardinality": lambda c, a: len(a),
    "current_setting": _setting,
    "ascii": lambda c, a: ord(a[0]) if a else 0,
    "chr": lambda c, a: chr(a),
    "sign": lambda c, a: (a > 0) - (a < 0),
}

LENIENT: dict[str, Function] = {
    "coalesce": lambda c, *values: next((value for value in values if value is not None), None),
    "greatest": lambda c, *values: max((v for v in values if v is not None), default=None),
    "least": lambda c, *values: min((v for v in values if v is not None), default=None),
    "nullif": lambda c, a, b: (
        None if a is not None and b is not None and operators.equal(a, b) else a
    ),
    "concat": lambda c, *values: "".join(_output(value) for value in values if value is not None),
    "set_config": _set,
    "now": _now,
    "current_timestamp": _now,
    "transaction_timestamp": _now,
    "statement_timestamp": _clock,
    "clock_timestamp": _clock,
    "current_date": lambda c: _now(c).date(),
    "gen_random_uuid": _uuid,
    "uuid": _uuid,
    "pg_current_xact_id": _current_xid,
    "txid_current": _current_xid,
    "pg_current_xact_id_if_assigned": lambda c: c.tx.xid or None,
    "pg_backend_pid": lambda c: c.tx.session.pid,
    "pg_export_snapshot": _export,
    "current_user": lambda c: c.tx.session_user,
    "session_user": lambda c: c.tx.session_user,
    "user": lambda c: c.tx.session_user,
    "current_database": lambda c: c.tx.node.name,
    "current_schema": lambda c: "public",
    "row": lambda c, *values: tuple(values),
}


def _output(value: Any) -> str:
    return "t" if value is True else "f" if value is False else as_text(value)


def _sum(values: Sequence[Any]) -> Any:
    total = None
    for value in values:
        total = value if total is None else operators.add(total, value)
    return total


def _avg(values: Sequence[Any]) -> Any:
    if not values:
        return None
    total = _sum(values)
    return operators.divide(Decimal(total) if isinstance(total, int) else total, len(values))


AGGREGATES: dict[str, Callable[[Sequence[Any]], Any]] = {
    "count": len,
    "sum": _sum,
    "avg": _avg,
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
    "bool_and": lambda values: all(values) if values else None,
    "bool_or": lambda values: any(values) if values else None,
    "every": lambda values: all(values) if values else None,
}

#: PostgreSQL's names of functions by the parser's.
RENAMED = {
    "logical_and": "bool_and", "logical_or": "bool_or", "str_position": "strpos", "rand": "random",
    "array_size": "array_length", "current_timestamp": "now", "pad": "lpad",
    "ceiling": "ceil", "md5_digest": "md5", "unicode": "ascii",
}  # fmt: skip
