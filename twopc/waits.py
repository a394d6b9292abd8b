"""The wait graph across servers: built from rows, it yields cycles.

No server sees a cycle that includes another server. Here a transaction is the local session, its link sessions at
the Publisher and its prepared branches, taken as one; it waits if any of them waits for a lock, and holds the locks
that any of them holds.

Pure: callers execute `WAITS_SQL` on a connection to each node's database.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from twopc.names import BranchId, GlobalId, bounded

#: Query for the sessions of one database that have a transaction open, and for what they wait. One row per
#: session, columns in the order of the fields of `OpenTransaction` after `node`. A prepared branch has no process:
#: `pg_blocking_pids` reports it as 0, and it is found by the lock that it holds on the same object.
WAITS_SQL = """
select s.port || '@' || extract(epoch from pg_postmaster_start_time()) as server,
       a.pid,
       -- anybody may take any name: a link's is believed of a link's role
       case when starts_with(a.usename::text, 'msrepl_link_') or a.application_name !~ '^msrepl [^ ]+ [0-9]+$'
            then a.application_name else '' end,
       extract(epoch from a.backend_start)::float8,
       extract(epoch from a.xact_start)::float8,
       coalesce(a.wait_event_type = 'Extension', false) as on_link,
       coalesce(extract(epoch from w.waitstart), 0)::float8,
       coalesce(w.mode || ' on ' || w.locktype, ''),
       coalesce(w.relation, t.relation, '') as relation,
       case when w.mode is null then '{}' else pg_blocking_pids(a.pid) end as holder_pids,
       case when w.mode is null then '{}' else array(
           select distinct x.gid
           from pg_locks h
           join pg_locks own on own.pid is null and own.locktype = 'transactionid'
                            and own.virtualtransaction = h.virtualtransaction
           join pg_prepared_xacts x on x.transaction = own.transactionid
           where h.pid is null and h.granted
             and (h.locktype, h.database, h.relation, h.page, h.tuple, h.transactionid, h.classid,
                  h.objid, h.objsubid) is not distinct from
                 (w.locktype, w.database, w.relation_oid, w.page, w.tuple, w.transactionid, w.classid,
                  w.objid, w.objsubid)
       ) end as holder_gids
from pg_stat_activity a
cross join (select current_setting('port') as port) s
left join lateral (
    select l.waitstart, l.mode, l.locktype, l.database, l.relation as relation_oid, l.page, l.tuple,
           l.transactionid, l.classid, l.objid, l.objsubid, regexp_replace(l.relation::regclass::text, '^public[.]', '') as relation
    from pg_locks l
    where l.pid = a.pid and not l.granted and a.wait_event_type = 'Lock'
    limit 1
) w on true
left join lateral (
    -- who waits for another transaction's row holds the lock on that row's tuple meanwhile
    select regexp_replace(l.relation::regclass::text, '^public[.]', '') as relation
    from pg_locks l
    where w.locktype = 'transactionid' and l.pid = a.pid and l.granted and l.locktype = 'tuple'
    limit 1
) t on true
where a.datname = current_database() and a.xact_start is not null
  and a.backend_type = 'client backend' and a.pid <> pg_backend_pid()
"""

#: Leaves room for ``msrepl``, two spaces and a pid of seven digits.
_SUBSCRIBER_BYTES_MAX = 48
_LINK = re.compile(r"msrepl (?P<subscriber>\S+) (?P<pid>\d+)\Z")


Transactions = Mapping[GlobalId, tuple[tuple[str, int], ...]]
"""Node and pid of the local sessions of each global transaction."""


def link_name(subscriber: str, pid: int) -> str:
    """Return the `application_name` of the link from backend `pid` of `subscriber` to the Publisher."""
    return f"{link_prefix(subscriber)} {pid}"


def link_prefix(subscriber: str) -> str:
    """Return the prefix of the names of a Subscriber's links; it is short enough that the server does not cut off
    the pid.
    """
    return f"msrepl {_short(subscriber)}"


def _short(subscriber: str) -> str:
    return bounded(subscriber, _SUBSCRIBER_BYTES_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """One session with an open transaction; a row of `WAITS_SQL`."""

    node: str
    server: str
    """Identifier of the server to which the pid belongs; nodes on one server share it."""
    pid: int
    application_name: str
    backend_start: float
    """Seconds since 1970 by the server's clock; with the pid it identifies the session for ever."""
    xact_start: float
    on_link: bool
    """Whether the session waits for its link's answer."""
    wait_start: float
    """Time since which the session waits for a lock; 0 if it does not."""
    lock: str
    relation: str
    holder_pids: tuple[int, ...]
    holder_gids: tuple[str, ...]


def session(node: str, row: tuple[object, ...]) -> OpenTransaction:
    """Return the value of a row of `WAITS_SQL` read at `node`."""
    server, pid, name, born, began, on_link, since, lock, relation, pids, gids = row
    return OpenTransaction(
        node=node,
        server=str(server),
        pid=int(pid),  # type: ignore[call-overload] # a database row is not typed
        application_name=str(name),
        backend_start=float(born),  # type: ignore[arg-type] # as above
        xact_start=float(began),  # type: ignore[arg-type] # as above
        on_link=bool(on_link),
        wait_start=float(since),  # type: ignore[arg-type] # as above
        lock=str(lock),
        relation=str(relation),
        holder_pids=tuple(dict.fromkeys(pids)),  # type: ignore[call-overload] # as above
        holder_gids=tuple(gids),  # type: ignore[arg-type] # as above
    )


@dataclass(frozen=True, slots=True, order=True)
class Party:
    """A transaction as a whole, identified by its local session (the first, if it has several); pid 0 if only
    prepared branches are left.
    """

    server: str
    pid: int
    global_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """`waiter`, a session of `party`, waits for a lock that `holder_pid` or `holder_gid` has."""

    party: Party
    """The transaction to which the waiting session belongs."""
    waiter: OpenTransaction
    holder: Party
    holder_pid: int
    holder_gid: str = ""

    def __str__(self) -> str:
        on = f" ({self.waiter.relation})" if self.waiter.relation else ""
        held = f"prepared {self.holder_gid}" if self.holder_gid else f"pid {self.holder_pid}"
        who = f"pid {self.waiter.pid}"
        if self.party.pid not in (0, self.waiter.pid):
            who += f", for pid {self.party.pid} of {self.waiter.application_name.split()[1]},"
        return f"{self.waiter.node}: {who} waits for {self.waiter.lock}{on} held by {held}"


Cycle = tuple[Edge, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The wait graph: edges by the waiting party."""

    edges: Mapping[Party, tuple[Edge, ...]]

    def cycles(self) -> tuple[Cycle, ...]:
        """Return disjoint cycles, at least one if there is any. A cycle that one server sees as a whole is left
        out, because that server breaks it by itself.
        """
        results: list[Cycle] = []
        done: set[Party] = set()
        for start in sorted(self.edges):
            cycle = self._cycle_from(start, done)
            if cycle is not None and not _seen_by_one_server(cycle):
                results.append(cycle)
        return tuple(results)

    def _cycle_from(self, start: Party, done: set[Party]) -> Cycle | None:
        """Search depth first, without recursion: a queue on one row can be hundreds of sessions long."""
        if start in done:
            return None
        path: list[Edge] = []
        at = {start: 0}
        stack = [iter(self.edges.get(start, ()))]
        while stack:
            edge = next(stack[-1], None)
            if edge is None:
                stack.pop()
                done.add(path[-1].holder if path else start)
                if path:
                    at.pop(path.pop().holder)
            elif edge.holder in at:
                done.update(at)
                return (*path[at[edge.holder] :], edge)
            elif edge.holder not in done:
                path.append(edge)
                at[edge.holder] = len(path)
                stack.append(iter(self.edges.get(edge.holder, ())))
        return None


def _seen_by_one_server(cycle: Cycle) -> bool:
    following = (*cycle[1:], cycle[0])
    return all(
        edge.waiter.server == after.waiter.server and edge.holder_pid == after.waiter.pid
        for edge, after in zip(cycle, following, strict=True)
    )


def build(sessions: Iterable[OpenTransaction], transactions: Transactions | None = None) -> Graph:
    """Return the wait graph.

    Args:
        sessions: the open transactions of all nodes, read as close together in time as possible.
        transactions: known global transactions, by which a prepared branch is linked to its transaction's sessions,
            and the sessions of one transaction to each other.
    """
    all_sessions = tuple(sessions)
    server_of = {one.node: one.server for one in all_sessions}
    known = {
        global_id: tuple(Party(server_of.get(node, node), pid) for node, pid in local)
        for global_id, local in (transactions or {}).items()
    }
    first = {party: parties[0] for parties in known.values() for party in parties[1:]}

    server_of_link = {_short(node): server for node, server in server_of.items()}

    def party_of(one: OpenTransaction) -> Party:
        link = _LINK.match(one.application_name)
        if link is None:
            return Party(one.server, one.pid)
        return Party(server_of_link.get(link["subscriber"], link["subscriber"]), int(link["pid"]))

    def whole(party: Party) -> Party:
        return first.get(party, party)

    def party_of_branch(gid: str) -> Party:
        branch = BranchId.parse(gid)
        if branch is None:
            return Party("", 0, gid)
        local = known.get(branch.global_id)
        return local[0] if local else Party("", 0, str(branch.global_id))

    by_pid = {(one.server, one.pid): one for one in all_sessions}
    edges: dict[Party, list[Edge]] = {}
    for one in all_sessions:
        party = party_of(one)
        own = edges.setdefault(whole(party), [])
        for pid in one.holder_pids:
            other = by_pid.get((one.server, pid))
            if pid and other is not None:
                holder = whole(party_of(other))
                own.append(Edge(party=party, waiter=one, holder=holder, holder_pid=pid))
        for gid in one.holder_gids:
            own.append(
                Edge(
                    party=party,
                    waiter=one,
                    holder=party_of_branch(gid),
                    holder_pid=0,
                    holder_gid=gid,
                )
            )
    return Graph(edges={party: tuple(own) for party, own in edges.items() if own})


def youngest(
    cycle: Cycle, sessions: Iterable[OpenTransaction]
) -> tuple[OpenTransaction, OpenTransaction] | None:
    """Return the victim: the local session whose transaction began last, and its session that waits.

    Parties that wait over their links, as in a cycle that no server sees whole, are preferred: only there does our
    own code wait, which can report the reason to an application without a coordinator. None if no party has a
    session in `sessions`.
    """
    local = {Party(one.server, one.pid): one for one in sessions}
    parties = [(local[edge.party], edge.waiter) for edge in cycle if edge.party in local]
    return max(
        parties,
        key=lambda one: (one[0] is not one[1], one[0].xact_start, one[0].pid),
        default=None,
    )
