"""Tests of the wait graph, built from made-up rows: parties, cycles, and the choice of a victim."""

from __future__ import annotations

from typing import Any

from twopc.names import GlobalId
from twopc.waits import OpenTransaction, Party, build, link_name, youngest


def one(
    node: str, pid: int, *pids: int, gids: tuple[str, ...] = (), **changes: Any
) -> OpenTransaction:
    """Return a session that waits for `pids` and `gids`, or for none."""
    facts = {
        "node": node,
        "server": f"server of {node}",
        "pid": pid,
        "application_name": "an application",
        "backend_start": 1.0,
        "xact_start": float(pid),
        "on_link": False,
        "wait_start": 2.0 if pids or gids else 0.0,
        "lock": "ShareLock on transactionid",
        "relation": "account",
        "holder_pids": pids,
        "holder_gids": gids,
    }
    return OpenTransaction(**{**facts, **changes})


def link(pid: int, of: tuple[str, int], *pids: int) -> OpenTransaction:
    """Return the session of a link at the Publisher."""
    return one("pub", pid, *pids, application_name=link_name(*of))


def test_nobody_waits() -> None:
    graph = build([one("sub1", 1), link(11, ("sub1", 1))])
    assert graph.edges == {}
    assert graph.cycles() == ()


def test_a_session_waits_as_soon_as_its_link_does() -> None:
    graph = build(
        [one("sub1", 1), link(11, ("sub1", 1), 12), one("sub2", 2), link(12, ("sub2", 2))]
    )
    (edge,) = graph.edges[Party("server of sub1", 1)]
    assert edge.holder == Party("server of sub2", 2)
    assert str(edge) == (
        "pub: pid 11, for pid 1 of sub1, waits for ShareLock on transactionid (account) held by pid 12"
    )


def test_a_cycle_over_two_servers_is_found() -> None:
    sessions = [
        one("sub1", 1), link(11, ("sub1", 1), 12),
        one("sub2", 2, 3), link(12, ("sub2", 2)),
        one("sub2", 3), link(13, ("sub2", 3), 11),
    ]  # fmt: skip
    (cycle,) = build(sessions).cycles()
    assert [edge.party.pid for edge in cycle] == [1, 2, 3]
    found = youngest(cycle, sessions)
    assert found is not None
    victim, waiter = found
    assert (victim.node, victim.pid, waiter.pid) == ("sub2", 3, 13)


def test_who_waits_over_its_link_is_sacrificed_before_who_is_younger() -> None:
    """A session that waits over its link can get the reason in an error, so it is chosen first."""
    sessions = [
        one("sub1", 1), link(11, ("sub1", 1), 12),
        one("sub2", 3, 2), link(12, ("sub2", 3)),
        one("sub2", 2), link(13, ("sub2", 2), 11),
    ]  # fmt: skip
    (cycle,) = build(sessions).cycles()
    found = youngest(cycle, sessions)
    assert found is not None
    assert (found[0].pid, found[1].pid) == (2, 13)


def test_a_cycle_within_one_server_is_left_to_it() -> None:
    sessions = [
        one("sub1", 1), link(11, ("sub1", 1), 12), one("sub2", 2), link(12, ("sub2", 2), 11),
    ]  # fmt: skip
    assert build(sessions).cycles() == ()


def test_a_prepared_branch_leads_on_to_what_its_transaction_does_elsewhere() -> None:
    """The transaction's other branch is in PREPARE, and waits for a session that waits for the prepared branch."""
    transaction = GlobalId(coordinator="c", epoch=1, sequence=7)
    sessions = [
        one("sub1", 1, 2),
        one("sub1", 2),
        one("pub", 12, gids=(f"{transaction}:pub",), application_name=link_name("sub1", 2)),
    ]
    assert build(sessions).cycles() == (), "whose branch it is, nobody here knows"
    (cycle,) = build(sessions, {transaction: (("sub1", 1),)}).cycles()
    assert "held by prepared twopc:c:1:7:pub" in " ".join(map(str, cycle))


def test_a_foreign_branch_is_where_it_ends() -> None:
    graph = build([one("pub", 1, gids=("somebody else's",)), one("pub", 2, 1)])
    assert graph.cycles() == ()
    assert len(graph.edges) == 2


def test_each_cycle_is_found_once_however_long_the_queue_behind_it() -> None:
    sessions = [
        # two cycles of two, each over two servers, and a thousand sessions that wait behind the first
        *(
            session
            for a, b in (("a", "b"), ("c", "d"))
            for session in (
                one(a, 1, 9), one(a, 9, application_name=link_name(b, 1)),
                one(b, 1, 9), one(b, 9, application_name=link_name(a, 1)),
            )
        ),
        *(one("a", 100 + k, 1 if k == 0 else 99 + k) for k in range(1000)),
    ]  # fmt: skip
    cycles = build(sessions).cycles()
    assert sorted(sorted(edge.waiter.node for edge in cycle) for cycle in cycles) == [
        ["a", "b"],
        ["c", "d"],
    ]


def test_a_link_of_a_subscriber_with_a_long_name() -> None:
    """The server truncates names at 63 bytes, and must not truncate the pid."""
    name = "s" * 63
    assert len(link_name(name, 4_194_304)) <= 63
    assert link_name(name, 12).endswith(" 12")
    assert link_name(name, 1) != link_name("s" * 62, 1)
    graph = build([one(name, 1), link(11, (name, 1), 12), one("sub2", 2), link(12, ("sub2", 2))])
    (edge,) = graph.edges[Party(f"server of {name}", 1)]
    assert edge.holder == Party("server of sub2", 2)
