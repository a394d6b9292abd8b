"""Small programs, each the least in which some bugs can show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from twopc.sim.model.choosers import ChoiceKernel
from twopc.sim.model.explore.evidence import Evidence
from twopc.sim.model.explore.programs import Script, ScriptClient
from twopc.sim.model.system import System
from twopc.sim.model.values import (
    Delay,
    ModelSpec,
    ModelTiming,
    ProcedureSpec,
    Steps,
    SubscriberSpec,
    TableSpec,
)

_ACCOUNT = TableSpec(
    name="account",
    columns={"id": "int", "balance": "int not null check (balance >= 0)"},
    key=("id",),
    rows=({"id": 1, "balance": 100}, {"id": 2, "balance": 100}),
)
_MARK_GREATEST = ProcedureSpec(
    name="mark_greatest",
    body="""
    create procedure mark_greatest() language plpgsql as $$
    declare greatest_one int;
    begin
        select max(id) into greatest_one from account;
        update account set balance = 0 where id = greatest_one;
    end $$
    """,
    reads=("account",),
    writes=("account",),
)
_TAKE = "update account set balance = balance - 10 where id = 1"
_END = ("end", "commit")
_DELIVER = ("deliver", "sync")
_TAKING = ("write", _TAKE)


def spec(
    commit: str = "presumed_abort", subscribers: int = 1, *, distributes: bool = False, sql: tuple[str, ...] = (),
    **subscriber: Any,
) -> ModelSpec:  # fmt: skip
    """A small system: one table of two accounts.

    Args:
        sql: of the Publisher alone, behind the table's definition.
        subscriber: of every Subscriber, see `SubscriberSpec`.
    """
    return ModelSpec(
        publisher="pub",
        subscribers=tuple(
            SubscriberSpec(name=f"sub{n + 1}", **subscriber) for n in range(subscribers)
        ),
        tables=(replace(_ACCOUNT, sql=sql),),
        commit=commit,
        distributes=distributes,
        in_doubt_after_s=0.1,
        recovery_interval_s=1.0,
        timing=ModelTiming(restart=Delay(a=0.01)),
    )


def _transfer(name: str, commit: str, lingers: int = 0) -> Script:
    return Script(
        name=name,
        spec=spec(commit),
        clients={"alice": ScriptClient(node="sub1", steps=(_TAKING, _END))},
        checks=("same_rows",),
        lingers=lingers,
    )


def _before(node: str, *texts: str) -> Callable[[System], None]:
    """Statements of a session of its own, before anything happens; no trigger of a Subscriber's fires."""

    def prepare(system: System) -> None:
        session = system.nodes[node].connect("postgres", "before")

        def work() -> Steps[None]:
            for text in ("set session_replication_role = replica", *texts):
                yield from session.execute(text)
            session.close()

        kernel = system.kernel
        assert isinstance(kernel, ChoiceKernel)
        kernel.run(kernel.spawn(work(), "before"))

    return prepare


#: Another coordinator has something prepared at the Publisher.
_strangers = _before(
    "pub",
    "begin",
    "update account set balance = 50 where id = 2",
    "prepare transaction 'twopc:other:1:1:pub'",
)
#: The Publisher has inserted a row that is gone again, and changed another one.
_CAME_AND_WENT = (
    "insert into account (id, balance) values (3, 1)",
    "delete from account where id = 3",
    "update account set balance = 30 where id = 2",
)


def _deferred(system: System) -> None:
    """A table of the Subscriber's own, with a key that is checked at the commit only."""
    system.nodes["sub1"].define(
        "create table held (id int primary key, place int unique deferrable initially deferred)"
    )
    system.nodes["sub1"].define("insert into held values (0, 1)")


#: Does something at the end of a transaction, behind everything that was waiting there: it is queued by what was.
_AT_LAST = (
    "create table late (n int)",
    "create function at_last() returns trigger language plpgsql as $$ begin "
    "if new.n < 3 then insert into late values (new.n + 1); end if; "
    "perform set_config('synchronous_commit', 'off', true); return null; end $$",
    "create constraint trigger at_last after insert on late deferrable initially deferred "
    "for each row execute function at_last()",
)


def _any_client(
    name: str, steps: tuple[tuple[str, str], ...], *, sql: tuple[str, ...] = (),
    forgoes: tuple[str, ...] = (),
) -> Script:  # fmt: skip
    """A client without a coordinator."""
    own = replace(spec("last_agent").subscribers[0], any_client=True, sql=sql)
    return Script(
        name=name,
        spec=replace(spec("last_agent"), subscribers=(own,)),
        clients={"alice": ScriptClient(node="sub1", steps=steps, any_client=True)},
        checks=("converged",),
        forgoes=forgoes,
    )


_READ = ("read", "select balance from account where id = 1")
_READ_AND_TAKE = (
    _READ,
    ("write", "update account set balance = :seen - 10 where id = 1"),
    _END,
)


def _one_wins(evidence: Evidence) -> list[str]:
    """Nothing is delivered meanwhile, so each works on a copy that the other's commit makes old."""
    committed = [one.session for one in evidence.outcomes if one.outcome == "committed"]
    return [f"{' and '.join(committed)} have both changed the same copy"] if committed[1:] else []


def _whole_transactions(evidence: Evidence) -> list[str]:
    """Money goes from one account to the other, so there is the same amount at every moment."""
    lines = [
        f"{node} has shown {list(held)}"
        for moment in evidence.moments
        for node, held in moment.rows.items()
        if sum(balance for _, balance in held) != 200
    ]
    return list(dict.fromkeys(lines))


def _never_goes_back(evidence: Evidence) -> list[str]:
    """Alice takes twice; at her Subscriber her account never has more than before."""
    shown = [
        balance
        for moment in evidence.moments
        for number, balance in moment.rows.get("sub1", ())
        if number == 1
    ]
    return [
        f"sub1 has shown {before} and then {now}" for before, now in pairwise(shown) if now > before
    ][:1]


def _left_out(evidence: Evidence) -> list[str]:
    """What was passed over for its error left nothing at the Subscriber."""
    held = evidence.rests[-1].rows["account"]["sub1"]
    return [] if held == ((1, 100), (2, 100), (3, 7)) else [f"sub1 has {list(held)}"]


def _two(
    name: str, alice: tuple[tuple[str, str], ...], bob: tuple[tuple[str, str], ...] = (), *,
    sql: tuple[str, ...] = (),
) -> Script:  # fmt: skip
    """Sessions at two Subscribers, to which everything is delivered in the end."""
    saves = {"read": {"seen": "balance"}}
    clients = {"alice": ScriptClient(node="sub1", steps=alice, saves=saves)}
    if bob:
        clients["bob"] = ScriptClient(node="sub2", steps=bob, saves=saves)
    return Script(
        name=name,
        spec=spec(subscribers=2, distributes=True, sql=sql),
        clients=clients,
        checks=("converged", "echoed", "stored_once"),
        claims={"no_lost_update": _one_wins} if bob else {},
    )


def _in_both(name: str, commit: str) -> Script:
    """One transaction at two Subscribers; each is brought in the end what was changed at the other."""
    return Script(
        name=name,
        spec=spec(commit, subscribers=2, distributes=True),
        clients={
            "alice": ScriptClient(
                node="sub1",
                also=("sub2",),
                steps=(
                    _TAKING,
                    ("there", "update account set balance = balance + 10 where id = 2"),
                    _END,
                ),
                at={"there": "sub2"},
            )
        },
        checks=("converged", "echoed", "stored_once"),
    )


def _alone(name: str, *steps: tuple[str, str], prepare: Callable[[System], None]) -> Script:
    """One transaction, at a place that was prepared for it."""
    alice = ScriptClient(node="sub1", steps=(*steps, _END))
    return Script(name=name, spec=spec(), clients={"alice": alice}, prepare=prepare)


def _copied(name: str, *steps: tuple[str, str]) -> Script:
    """A Subscriber's rows are replaced while the Publisher inserts one."""
    insert = ("insert", "insert into account values (3, 1)")
    return Script(
        name=name,
        spec=spec(distributes=True),
        clients={
            "office": ScriptClient(node="pub", steps=(insert, *steps)),
            "operator": ScriptClient(node="sub1", steps=(("copy", "reinitialise"),)),
        },
        checks=("converged", "stored_once"),
    )


_PROGRAMS = (
    _transfer("transfer", "presumed_abort"),
    _transfer("transfer, and later", "presumed_abort", lingers=8),
    _transfer("transfer by last agent", "last_agent"),
    _in_both("transfer between Subscribers", "presumed_abort"),
    _in_both("transfer between Subscribers by presumed commit", "presumed_commit"),
    _any_client("any client", (_TAKING, _END)),
    # whoever does not wait for the disk may lose what he was told, and others have seen
    _any_client(
        "any client that does not wait for the disk",
        (_TAKING, ("later", "insert into late values (0)"), _END),
        sql=_AT_LAST,
        forgoes=("I3", "I4"),
    ),
    Script(
        name="ended by itself",
        spec=spec(),
        clients={
            "alice": ScriptClient(
                node="sub1",
                steps=(
                    _TAKING,
                    ("leave", "ROLLBACK"),
                    # as whoever has read them before
                    ("name", "set msrepl.gid = 'twopc:model:1:1'"),
                    ("prove", "set msrepl.proof = ''"),
                    _END,
                ),
                beneath=("leave", "name", "prove"),
            )
        },
    ),
    _alone(
        "refused at its own end",
        _TAKING,
        ("break", "insert into held values (1, 1)"),
        prepare=_deferred,
    ),
    _alone("at its own end only", ("write", "insert into held values (1, 2)"), prepare=_deferred),
    _alone("beside another coordinator", _TAKING, prepare=_strangers),
    _two("lost update", _READ_AND_TAKE, _READ_AND_TAKE),
    _two(
        "delete of what has changed",
        _READ_AND_TAKE,
        (_READ, ("remove", "delete from account where id = 1"), _END),
    ),
    _two(
        "one of two rows has changed",
        _READ_AND_TAKE,
        (_READ, ("take", "update account set balance = balance - 20"), _END),
    ),
    _two(
        "back to a savepoint",
        (
            _TAKING,
            ("mark", "savepoint a"),
            ("more", "update account set balance = balance - 10 where id = 2"),
            ("back", "rollback to savepoint a"),
            _END,
        ),
    ),
    Script(
        name="deliver two rows of one transaction",
        spec=spec(subscribers=2, distributes=True),
        clients={
            "alice": ScriptClient(
                node="sub1",
                steps=(
                    _TAKING,
                    ("give", "update account set balance = balance + 10 where id = 2"),
                    _END,
                    _DELIVER,
                ),
            )
        },
        checks=("converged", "echoed", "stored_once"),
        claims={"no_half": _whole_transactions},
        keeps_rows=True,
    ),
    _two("write and deliver", (_TAKING, _END, _DELIVER)),
    _two(
        "insert and deliver",
        (("write", "insert into account values (3, 100)"), _END, _DELIVER),
    ),
    Script(
        name="write twice and deliver",
        spec=spec(subscribers=2, distributes=True, batch=1),
        clients={
            "alice": ScriptClient(
                node="sub1",
                steps=(_TAKING, _END, ("more", _TAKE), _END, _DELIVER),
            )
        },
        checks=("converged", "echoed", "stored_once"),
        claims={"never_goes_back": _never_goes_back},
        keeps_rows=True,
    ),
    Script(
        name="insert what came and went",
        spec=spec(distributes=True),
        clients={
            "alice": ScriptClient(
                node="sub1",
                steps=(("write", "insert into account values (3, 7)"), _END, _DELIVER),
            )
        },
        prepare=_before("pub", *_CAME_AND_WENT),
        checks=("converged", "echoed", "stored_once"),
    ),
    Script(
        name="deliver what is passed over",
        spec=spec(distributes=True, skip_errors=("2627",)),
        clients={
            "office": ScriptClient(
                node="pub",
                steps=(
                    ("change", "update account set balance = 1 where id = 1"),
                    ("insert", "insert into account values (3, 1)"),
                    _END,
                    _DELIVER,
                ),
            )
        },
        prepare=_before("sub1", "insert into account (id, balance) values (3, 7)"),
        claims={"left_out": _left_out},
    ),
    Script(
        name="deliver over two streams",
        spec=spec(distributes=True, streams=2),
        clients={
            "office": ScriptClient(
                node="pub",
                steps=(
                    ("insert", "insert into account values (3, 1), (4, 1), (5, 1), (6, 1)"),
                    _END,
                    _DELIVER,
                ),
            )
        },
        checks=("converged", "stored_once"),
    ),
    Script(
        name="a Subscriber's change, and the Publisher's",
        spec=spec(subscribers=2, distributes=True),
        clients={
            "alice": ScriptClient(node="sub1", steps=(_TAKING, _END)),
            "office": ScriptClient(
                node="pub",
                steps=(("give", "update account set balance = balance + 10 where id = 2"), _END),
            ),
        },
        checks=("converged", "echoed", "stored_once"),
    ),
    _copied("insert while rows are copied", _END),
    _copied("insert and deliver while rows are copied", _END, _DELIVER),
    Script(
        name="a call that has not seen a writer",
        spec=replace(
            spec(distributes=True),
            subscribers=(SubscriberSpec(name="sub1", update="read only"),),
            procedures=(_MARK_GREATEST,),
        ),
        clients={
            "caller": ScriptClient(
                node="pub",
                level="serializable",
                steps=(
                    ("look", "select count(*) from account"),
                    ("call", "call mark_greatest()"),
                    _END,
                ),
            ),
            "writer": ScriptClient(
                node="pub",
                level="serializable",
                steps=(("write", "insert into account values (3, 100)"), _END),
            ),
        },
        checks=("converged", "stored_once"),
    ),
    _two(
        "the Publisher stores otherwise",
        (("write", "insert into account values (3, 7)"), _END),
        sql=(
            "create function rounded() returns trigger language plpgsql as $$ begin "
            "new.balance := new.balance / 5 * 5; return new; end $$",
            "create trigger rounded before insert on account for each row execute function rounded()",
        ),
    ),
)

PROGRAMS: dict[str, Script] = {one.name: one for one in _PROGRAMS}
