"""Row versions: digests, so that the same history produces the same versions.

Implements the effects of subscriber/sql/stamp_version.sql and publisher/sql/version_trigger_function.sql; instead
of their random values, versions here are digests of unique texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import md5
from typing import Any
from uuid import UUID

from twopc.sim.model.values import RowChange, Steps, Values


def digest(text: str) -> UUID:
    """``md5(text)::uuid``"""
    return UUID(bytes=md5(text.encode(), usedforsecurity=False).digest())


def first(table: str, key: Values) -> UUID:
    """Return the version of a row that existed before its table was published."""
    return digest(f"{table} {key!r}")


def derived(sent: UUID, xid: int) -> UUID:
    """Return the version that replaces the one sent by a Subscriber if the sent one is not kept."""
    return digest(f"{sent} {xid}")


class Births:
    """Versions of inserted rows at one node, numbered within a global transaction, or within a plain session."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._counts: dict[str, int] = {}

    def __call__(self, tx: Any) -> UUID:
        """Return a version that no other row has, had or will have."""
        gid = tx.setting("msrepl.gid")
        session = tx.session
        if gid:
            born, count = getattr(session, "births", ("", 0))
            count = count + 1 if born == gid else 1
            session.births = (gid, count)
            return digest(f"{self._node} {gid} {count}")
        name = session.application_name
        count = self._counts[name] = self._counts.get(name, 0) + 1
        return digest(f"{self._node} {name} {count}")


class RenewVersion:
    """``~sp_mssync_upd_trig_<table>`` at the Publisher: sets a new version unless a Subscriber has sent one.

    If BEFORE triggers of the user might change the row (`keeps_none`), the sent version is replaced by one
    `derived` from it.
    """

    when = "before row"
    operations = frozenset({"ins", "upd"})
    fires = "always"

    def __init__(
        self,
        name: str,
        place: int,
        births: Births,
        renew: Callable[[UUID, str], UUID],
        *,
        keeps_none: bool,
    ) -> None:
        self.name = name
        self._keeps_none = keeps_none
        self._place = place
        self._births = births
        self._renew = renew

    def fire(
        self, tx: Any, table: str, changes: Sequence[RowChange]
    ) -> Steps[Sequence[RowChange] | None]:
        """Set the row's version; see the class."""
        (change,) = changes
        old, new, place = change.old, change.new, self._place
        assert new is not None
        if tx.applying and not tx.cause and (old is None or new[place] != old[place]):
            if not self._keeps_none:
                return None
            sent: Any = new[place]
            version = derived(sent, tx.assign())
        elif old is None:
            version = self._births(tx)
        else:
            was: Any = old[place]
            version = self._renew(was, tx.session.application_name)
        row = (*new[:place], version, *new[place + 1 :])
        return (RowChange(table=table, operation=change.operation, old=old, new=row),)
        yield  # makes this function a generator
