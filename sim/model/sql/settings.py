"""The settings of PostgreSQL that a session of the model has, and how values are shown; others are refused by name.

Accepting a setting without implementing it would be wrong: SET would succeed and have no effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from twopc.sim.model.sql import rights
from twopc.sim.model.values import SqlError, UnsupportedError

_DURATION = re.compile(r"\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>us|ms|s|min|h|d)?\s*")
_OTHER_UNIT = re.compile(r"\s*\d+(\.\d+)?\s*[A-Za-z]+\s*")
_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1000, "ms": 1, "us": 0.001}
_MS_MAX = 2**31 - 1
_LEVELS = ("read uncommitted", "read committed", "repeatable read", "serializable")
#: Schemas that a search_path may list; it has no effect, as a name without a schema is always in public.
_SCHEMAS = frozenset({"", "public", "$user", "pg_catalog", "pg_temp", "msrepl"})
#: Synonyms of two values of synchronous_commit.
_SYNONYMS = {"true": "on", "yes": "on", "1": "on", "false": "off", "no": "off", "0": "off"}


def duration_text(ms: float) -> str:
    """Return a duration as the server shows it: in the largest unit of which it is a whole number."""
    whole = round(ms)
    units = (unit for unit, factor in _UNITS_MS.items() if factor >= 1 and not whole % factor)
    unit = next(units) if whole else ""
    return f"{whole // int(_UNITS_MS[unit])}{unit}" if unit else "0"


def _duration(name: str, value: str) -> str:
    match = _DURATION.fullmatch(value)
    if match is None:
        if re.match(r"\s*[-+.\d]", value) and not _OTHER_UNIT.fullmatch(value):
            raise UnsupportedError(f"{name} = {value}", f"this form of a duration ({value})")
        raise _invalid(name, value)
    ms = float(match["number"]) * _UNITS_MS[match["unit"] or "ms"]
    if round(ms) > _MS_MAX:
        raise _invalid(name, value)
    return duration_text(ms)


def path_text(schemas: Sequence[str]) -> str:
    """Return a search_path of these schemas, each quoted if necessary."""
    return ", ".join(
        one if re.fullmatch("[a-z_][a-z0-9_]*", one) else f'"{one}"' for one in schemas
    )


def _path(name: str, value: str) -> str:
    if not {one.strip().strip('"') for one in value.split(",")} <= _SCHEMAS:
        raise UnsupportedError(f"{name} = {value}", f"another search_path than public ({value})")
    return value


def _one_of(*values: str) -> Callable[[str, str], str]:
    def checked(name: str, value: str) -> str:
        word = value.lower()
        word = _SYNONYMS.get(word, word) if "on" in values else word
        if word not in values:
            raise _invalid(name, value)
        return word

    return checked


def _invalid(name: str, value: str) -> SqlError:
    return SqlError("22023", f'invalid value for parameter "{name}": "{value}"')


#: For each setting, the function from a value to the value that is shown.
_KNOWN: dict[str, Callable[[str, str], str]] = {
    "application_name": lambda name, value: value,
    "default_transaction_isolation": _one_of(*_LEVELS),
    "idle_in_transaction_session_timeout": _duration,
    "lock_timeout": _duration,
    "search_path": _path,
    "session_replication_role": _one_of("origin", "local", "replica"),
    "statement_timeout": _duration,
    "synchronous_commit": _one_of("on", "off", "local", "remote_write", "remote_apply"),
}
#: Settings that the model implements per session only, without SET LOCAL.
_OF_SESSIONS = frozenset({"idle_in_transaction_session_timeout", "statement_timeout"})


def refuse(name: str, value: str | None, *, local: bool) -> None:
    """Refuse a setting or a value that the model does not have; None resets the setting.

    Raises:
        UnsupportedError: the model does not have the setting, or not this form of its value.
    """
    if "." in name:  # of an extension, or of the application itself
        return
    text = f"{name} = {value}"
    if name not in _KNOWN:
        raise UnsupportedError(text, f"the setting {name}")
    if local and name in _OF_SESSIONS:
        raise UnsupportedError(text, f"SET LOCAL {name}")
    if value is not None:
        try:
            _KNOWN[name](name, value)
        except SqlError:
            return  # raised when the setting is set, as on a server


def put(tx: Any, name: str, value: str | None, *, local: bool) -> None:
    """Set a setting; None resets it. Raises `UnsupportedError` like `refuse`.

    Raises:
        SqlError: the value is invalid (22023), or the role may not set it (42501).
    """
    refuse(name, value, local=local)
    if name == "session_replication_role" and tx.session_user not in tx.node.replicators:
        rights.must_be_superuser(tx, f'permission denied to set parameter "{name}"')
    shown = _KNOWN[name](name, value) if value is not None and "." not in name else value
    tx.set(name, shown, local=local)
