"""A coordinator's part of a transaction, statement by statement, for tests that look between them."""

from __future__ import annotations

from psycopg import sql

from twopc.proof import Key


class ByHand:
    """A coordinator process whose statements a test gives itself."""

    def __init__(self, coordinator: str, epoch: int = 1) -> None:
        self._key = Key()
        self._place = coordinator, epoch

    @property
    def introduction(self) -> str:
        """What the coordinator's role says at a Subscriber once."""
        values = self._key.introduction(*self._place)
        return (
            sql.SQL("select msrepl.introduce_coordinator({})")
            .format(sql.SQL(", ").join(map(sql.Literal, values)))
            .as_string(None)
        )

    def naming(self, gid: str, pid: int) -> str:
        """What follows BEGIN in the application's session, whose process id is `pid`."""
        proof = self._key.prove("begin", gid, pid)
        return f"set local msrepl.gid = '{gid}'; set local msrepl.proof = '{proof}'"

    def vote(self, gid: str, pid: int, subscriber: str = "sub1") -> str:
        """What asks for the Publisher's vote."""
        proof = self._key.prove(f"vote pub,{subscriber}", gid, pid)
        return f"call msrepl.prepare_publisher('{gid}', null, '{proof}')"
