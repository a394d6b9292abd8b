"""Tests that each rule of immediate updating is needed: without it, a history has a wrong result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from tests.model.replication.recording import Kept
from tests.model.replication.world import NODES, spec
from twopc.drivers.virtual import AwaitableSteps, wait
from twopc.errors import ConfigurationError, TransactionError
from twopc.protocol.effects import Outcome
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.replication.behaviour import PARTS as RULES
from twopc.sim.model.replication.behaviour import Behaviour
from twopc.sim.model.system import PARTS, System, build
from twopc.sim.model.values import Steps
from twopc.sim.model.wiring import Wiring


def never(*_: Any) -> bool:
    """Return False: the rule does not apply."""
    return False


def system_with(**parts: Callable[..., Any]) -> System:
    """Return a system with all tables, in which these parts are replaced."""
    return build(spec(), Wiring(parts=parts), kernel=SimpyKernel(0), recorder=Kept())


def play(system: System, *steps: str) -> list[str]:
    """Play steps ``session: statement`` one after another; return the result of each."""
    clients: dict[str, Any] = {}
    told = []

    def work(name: str, text: str) -> Steps[str]:
        client = clients.setdefault(name, system.session(name, NODES[name[0]]))
        try:
            if text.startswith(("begin", "commit", "rollback")) and " to " not in text:
                yield from getattr(client, text)()
                return text
            if text == "sync":
                yield from system.sync(())
                return text
            result = yield from client.execute(text)
            return str(result.tag)
        except TransactionError as error:
            return getattr(error, "kind", "") or error.sqlstate

    for step in steps:
        name, _, text = step.partition(": ")
        told.append(system.kernel.run(system.kernel.spawn(work(name, text), name)))
    return told


def value(system: System, node: str, table: str, key: int, column: str) -> str | None:
    """Return the value of one row; None if there is no such row."""
    for row in system.nodes[node].rows(table, ["id", column]):
        if row["id"] == str(key):
            return row[column]
    return None


LOST_UPDATE = (
    "p: begin", "p: update plain set v = 100 where id = 1", "p: commit",
    "a: begin", "a: update plain set v = v + 1 where id = 1", "a: commit",
)  # fmt: skip


def test_version_check() -> None:
    """Without the version check, the Publisher's update is lost."""
    assert play(system_with(), *LOST_UPDATE)[4] == "version_mismatch"
    system = system_with(version_check=lambda held, sent: True)
    assert play(system, *LOST_UPDATE)[4:] == ["UPDATE 1", "commit"]
    assert value(system, "pub", "plain", 1, "v") == "11"


def test_all_counted() -> None:
    """Without it, one stale row among many is accepted, and Publisher and Subscriber differ."""
    steps = ("p: begin", "p: update plain set v = 0 where id = 4", "p: commit",
             "a: begin", "a: update plain set v = v + 1", "a: commit")  # fmt: skip
    assert play(system_with(), *steps)[4] == "version_mismatch"
    system = system_with(all_counted=lambda done, sent: done > 0)
    assert play(system, *steps)[4] == "UPDATE 5"
    assert value(system, "pub", "plain", 4, "v") == "0"
    assert value(system, "sub1", "plain", 4, "v") == "41"


def test_delete_check() -> None:
    """Without it, a row is deleted that another transaction has just changed."""
    steps = ("p: begin", "p: update plain set v = 0 where id = 4", "p: commit",
             "a: begin", "a: delete from plain where id = 4", "a: commit")  # fmt: skip
    assert play(system_with(), *steps)[4] == "delete_stale"
    assert play(system_with(delete_check=lambda held, sent: True), *steps)[4] == "DELETE 1"


def test_savepoint_mirror() -> None:
    """Without it, the Publisher keeps a change that the Subscriber has rolled back to a savepoint."""
    steps = ("a: begin", "a: update plain set v = v + 1 where id = 1", "a: savepoint s",
             "a: update plain set v = v + 1 where id = 2", "a: rollback to savepoint s", "a: commit")  # fmt: skip
    healthy, broken = system_with(), system_with(savepoint_mirror=lambda sent: ())
    for system, there in ((healthy, "20"), (broken, "21")):
        assert play(system, *steps)[-1] == "commit"
        assert value(system, "sub1", "plain", 2, "v") == "20"
        assert value(system, "pub", "plain", 2, "v") == there


def test_marker() -> None:
    """Without an originator, a change is delivered to the Subscriber that made it."""
    steps = ("a: begin", "a: update plain set v = v + 1 where id = 1", "a: commit", "p: sync")
    for parts, own in (({}, True), ({"marker": lambda role: None}, False)):
        system = system_with(**parts)  # type: ignore[arg-type] # functions
        play(system, *steps)
        told = {one.node: one.suppressed for one in system.take_deliveries()}
        assert told["sub1"] is own


def test_publisher_marker() -> None:
    """Without it, a branch writes no branch marker, which would prove how it ended."""
    steps = ("a: begin", "a: update plain set v = v + 1 where id = 1", "a: commit")
    system = system_with(publisher_marker=never)
    play(system, *steps)
    assert system.publisher.markers() == []


def test_versions_are_renewed() -> None:
    """Without a new version, the next stale update is accepted, after an update of a Subscriber or the Publisher."""
    steps = ("a: begin", "a: update plain set v = 50 where id = 1", "a: commit",
             "b: begin", "b: update plain set v = v + 1 where id = 1", "b: commit")  # fmt: skip
    assert play(system_with(), *steps)[4] == "version_mismatch"
    system = system_with(stamp_version=lambda old, gid: old, renew_version=lambda old, writer: old)
    assert play(system, *steps)[4] == "UPDATE 1"
    # after an update of the Publisher
    assert play(system_with(renew_version=lambda old, writer: old), *LOST_UPDATE)[4] == "UPDATE 1"


def test_partition_check() -> None:
    steps = ("a: begin", "a: update shop set region = 'south' where id = 1", "a: commit")
    assert play(system_with(), *steps)[1] == "not_in_partition"
    assert play(system_with(partition_check=never), *steps)[1] == "UPDATE 1"


def test_children_check() -> None:
    """Without it, a child row is deleted at the Publisher that the Subscriber has never received."""
    steps = ("p: begin", "p: insert into entry (id, account, amount) values (600, 1, 1)", "p: commit",
             "a: begin", "a: delete from account where id = 1", "a: commit")  # fmt: skip
    assert play(system_with(), *steps)[4] == "fk_violation"
    system = system_with(children_check=never)
    assert play(system, *steps)[4] == "DELETE 1"
    assert value(system, "pub", "entry", 600, "amount") is None


def test_witness() -> None:
    """Without it, a trigger of the Publisher changes rows that are never sent to the Subscriber."""
    steps = ("a: begin", "a: update item set name = 'all' where id = 1", "a: commit", "p: sync")
    assert play(system_with(), *steps)[1] == "error"
    system = system_with(witness=never)
    assert play(system, *steps)[1:3] == ["UPDATE 1", "commit"]
    assert value(system, "pub", "item", 2, "price") == "21.00"
    assert value(system, "sub1", "item", 2, "price") == "20.00"


def test_write_back() -> None:
    """Without it, the Subscriber does not get the changes that the Publisher made to its row."""
    steps = ("a: begin", "a: update item set name = 'SAW' where id = 2", "a: commit")
    for parts, name in (({}, "saw"), ({"write_back": lambda stored: ()}, "SAW")):
        system = system_with(**parts)  # type: ignore[arg-type] # functions
        play(system, *steps)
        assert value(system, "pub", "item", 2, "name") == "saw"
        assert value(system, "sub1", "item", 2, "name") == name


def test_children_first() -> None:
    """Without it, the Publisher's own referential action can precede the Subscriber's deletes."""
    steps = ("a: begin", "a: delete from account where id = 1", "a: commit")
    assert play(system_with(), *steps)[1] == "DELETE 1"
    other = system_with(children_first=never, children_check=never)
    told = play(other, *steps)[1]
    assert told in ("DELETE 1", "row_missing")


def test_guard() -> None:
    """Without it, a client can commit at the Subscriber only."""
    for parts, there in (({}, "20.00"), ({"guard": never}, "1.00")):
        system = system_with(**parts)  # type: ignore[arg-type] # functions
        session = system.nodes["sub1"].connect("app", "by hand")

        def work(session: Any = session) -> Steps[None]:
            for text in ("begin", "set local msrepl.gid = 'twopc:by-hand:1:1'", "set local msrepl.proof = 'any'",
                         "update account set balance = 1 where id = 1"):  # fmt: skip
                yield from session.execute(text)
            try:
                yield from session.execute("commit")
            except Exception:
                return

        system.kernel.run(system.kernel.spawn(work(), "by hand"))
        session.close()
        assert value(system, "sub1", "account", 1, "balance") == there
        assert value(system, "pub", "account", 1, "balance") == "20.00"


def test_capture_fires() -> None:
    """If capture fires for agents too, their changes are refused for want of a global transaction."""
    steps = ("p: begin", "p: update plain set v = 0 where id = 4", "p: commit")
    system = system_with(capture_fires=lambda: "always")
    play(system, *steps)
    with pytest.raises(Exception, match="global transaction"):
        system.kernel.run(system.kernel.spawn(system.sync(()), "sync"))


CHANGED, ADDED = (
    "update plain set v = v + 1 where id = 1",
    "update plain set v = v + 1 where id = 9",
)


@pytest.mark.parametrize(
    ("text", "off", "refused"),
    [
        (CHANGED, (), ""),
        (ADDED, (), ""),
        (CHANGED, ("recheck",), ""),
        (CHANGED, ("await_branches",), ""),
        (CHANGED, ("recheck", "await_branches"), "version_mismatch"),
        (ADDED, ("await_branches",), "row_missing"),
    ],
)
def test_recheck_and_await_branches(text: str, off: tuple[str, ...], refused: str) -> None:
    """A transaction waits for the previous one's branch that is still prepared at the Publisher.

    The branch is committed at the Subscriber already. Without the rules, the second transaction of that Subscriber is
    refused although there is no conflict.
    """
    system = system_with(**dict.fromkeys(off, never))
    kernel, held = system.kernel, system.kernel.event()
    first, second = system.session("a", "sub1"), system.session("c", "sub1")
    told: list[str] = []

    async def hold(_: str) -> None:
        await AwaitableSteps(wait(held))

    def one() -> Steps[None]:
        yield from first.begin()
        yield from first.execute("insert into plain (id, v) values (9, 1)")
        yield from first.execute(CHANGED)
        yield from first.commit()

    def other() -> Steps[None]:
        yield from second.begin()
        try:
            told.append((yield from second.execute(text)).tag)
        except TransactionError as error:
            told.append(getattr(error, "kind", ""))
            yield from second.rollback()
        else:
            yield from second.commit()

    system.points.arm("coordinator.before_commit(pub)", hold)
    kernel.spawn(one(), "a")
    kernel.run(kernel.now + 0.1)
    (gid,) = system.nodes["sub1"].prepared()
    kernel.run(kernel.spawn(system.finish_by_hand("sub1", gid, Outcome.COMMITTED), "hand"))
    kernel.spawn(other(), "c")
    kernel.run(kernel.now + 0.2)
    assert told == ([refused] if refused else [])
    held.succeed()
    kernel.run(kernel.now + 1.0)
    assert told == [refused or "UPDATE 1"]
    assert system.quiet()


def test_every_rule_is_named() -> None:
    """Every rule is a part that can be replaced; the name of an unknown part is an error."""
    assert set(RULES) == {one.name for one in fields(Behaviour)} <= set(PARTS)
    with pytest.raises(ConfigurationError, match="no part 'version'"):
        system_with(version=never)
