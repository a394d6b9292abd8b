"""The coordinator's part of a transaction, statement by statement, for tests that act in between."""

from __future__ import annotations

from psycopg import sql

from twopc.proof import Key


class ByHand:
    """A coordinator process whose statements a test executes."""

    def __init__(self, coordinator: str, epoch: int = 1) -> None:
        self._key = Key()
        self._place = coordinator, epoch

    @property
    def introduction(self) -> str:
        """The statement with which the coordinator's role introduces itself at a Subscriber."""
        values = self._key.introduction(*self._place)
        return (
            sql.SQL("select msrepl.introduce_coordinator({})")
            .format(sql.SQL(", ").join(map(sql.Literal, values)))
            .as_string(None)
        )

    def naming(self, gid: str, pid: int) -> str:
        """Return what follows BEGIN in the application's session, whose process id is `pid`."""
        proof = self._key.prove("begin", gid, pid)
        return f"set local msrepl.gid = '{gid}'; set local msrepl.proof = '{proof}'"

    def vote(self, gid: str, pid: int, subscriber: str = "sub1") -> str:
        """Return the statement that requests the Publisher's vote."""
        proof = self._key.prove(f"vote pub,{subscriber}", gid, pid)
        return f"call msrepl.prepare_publisher('{gid}', null, '{proof}')"
