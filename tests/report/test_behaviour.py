"""Tests of behaviours: they do not depend on time, node names or the order of independent steps."""

from __future__ import annotations

import dataclasses

import pytest

from tests.report.recorded import ended, made, records, sent
from twopc.sim.report.behaviour import behaviour, fingerprint, stable
from twopc.sim.report.history import by_order


def test_a_behaviour_in_words() -> None:
    (_, order), *_ = by_order(records("lost_update"))
    assert behaviour(order) == (
        'account at pub: 1 [{"id": "1", "balance": "90"}]',
        'account at sub1: 1 [{"id": "1", "balance": "90"}]',
        'account at sub2: 1 [{"id": "1", "balance": "100"}]',
        "alice a_begin: ok",
        "alice a_end: ok",
        'alice a_read: ok 1 [{"balance": 100}]',
        "alice a_write: ok 1",
        "alice: committed",
        "bob b_begin: ok",
        "bob b_end: rolled_back",
        'bob b_read: ok 1 [{"balance": 100}]',
        "bob b_write waits for alice a_write at pub",
        "bob b_write: rejected version_mismatch",
        "bob: rolled back",
    )


def test_orders_of_one_run_differ() -> None:
    prints = [fingerprint(of) for _, of in by_order(records("lost_update"))]
    assert len(set(prints)) == len(prints)
    assert all(len(each) == 12 for each in prints)


def test_the_isolation_level_alone_is_no_difference() -> None:
    """The winner rolls back at three isolation levels, always with the same behaviour."""
    assert len({fingerprint(of) for _, of in by_order(records("winner_rolls_back"))}) == 1


def test_when_and_under_which_names_does_not_matter() -> None:
    gids = ("twopc:t1_1:1:1", "twopc:other_7:2:9")
    one, two = (
        [
            dataclasses.replace(record, t_us=record.t_us * factor, gid=gid)
            for record in made(
                sent("select 1"),
                ended(rows=({"at": f"2026-0{factor}-01 10:00:00.5+00", "gid": gid},), rowcount=1),
            )
        ]
        for factor, gid in zip((1, 3), gids, strict=True)
    )
    assert fingerprint(one) == fingerprint(two)


@pytest.mark.parametrize(
    "other",
    [
        ended("error", sqlstate="23505"),
        ended("rejected", conflict={"kind": "row_missing"}),
        ended(rowcount=2),
        ended(rows=({"a": 2},), rowcount=1),
    ],
)
def test_another_end_is_another_behaviour(other: object) -> None:
    one = made(sent("x"), ended(rows=({"a": 1},), rowcount=1))
    assert fingerprint(one) != fingerprint(made(sent("x"), other))  # type: ignore[arg-type] # a record


def test_what_is_new_in_every_run() -> None:
    assert (
        stable("twopc:c_1:1:2:sub1/pub 578dbc00-70b9-2451-6803-13ff7fec8cd7 5") == "<gid> <uuid> 5"
    )
