"""Which settings of PostgreSQL a session of the model has; any other is refused by name.

A setting that nothing looks at would be a wrong answer: SET would succeed, and change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from twopc.sim.model.values import SqlError, UnsupportedError

_DURATION = re.compile(r"\d+(\.\d+)?\s*(us|ms|s|min|h|d)?")
_LEVELS = frozenset({"read uncommitted", "read committed", "repeatable read", "serializable"})
#: Schemas among which the model does not choose: a name without a schema is in public.
_SCHEMAS = frozenset({"", "public", "$user", "pg_catalog", "pg_temp", "msrepl"})


def _is_path(value: str) -> bool:
    return {one.strip().strip('"') for one in value.split(",")} <= _SCHEMAS


def _one_of(*values: str) -> Callable[[str], bool]:
    return lambda value: value.lower() in values


#: What each may be set to.
_KNOWN: dict[str, Callable[[str], bool]] = {
    "application_name": lambda value: True,
    "default_transaction_isolation": lambda value: value.lower() in _LEVELS,
    "idle_in_transaction_session_timeout": lambda value: _DURATION.fullmatch(value) is not None,
    "lock_timeout": lambda value: _DURATION.fullmatch(value) is not None,
    "search_path": _is_path,
    "session_replication_role": _one_of("origin", "local", "replica"),
    "statement_timeout": lambda value: _DURATION.fullmatch(value) is not None,
    "synchronous_commit": _one_of("on", "off", "local", "remote_write", "remote_apply"),
}
#: Those that the session looks at only as a whole, not in a transaction.
_OF_SESSIONS = frozenset({"idle_in_transaction_session_timeout", "statement_timeout"})


def check(name: str, value: str | None, *, local: bool) -> None:
    """See whether a session has this setting and takes the value; None: it is reset.

    Raises:
        UnsupportedError: the model does not have it, or not with this value.
        SqlError: PostgreSQL does not take the value (22023).
    """
    if "." in name:  # of an extension, or of the application itself
        return
    text = f"{name} = {value}"
    if name not in _KNOWN:
        raise UnsupportedError(text, f"the setting {name}")
    if local and name in _OF_SESSIONS:
        raise UnsupportedError(text, f"SET LOCAL {name}")
    if value is None or _KNOWN[name](value):
        return
    if name == "search_path":
        raise UnsupportedError(text, f"another search_path than public ({value})")
    raise SqlError("22023", f'invalid value for parameter "{name}": "{value}"')
