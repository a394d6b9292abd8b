"""The cases of the vote conformance suite: the event, and the coordinator's expected verdict.

Each event occurs between a change of one row at both sites and its commit. The results of psycopg's
``tpc_*`` methods in the same cases are recorded in ``docs/votes.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.crash.vote_doings import (
    at_the_gate,
    both,
    breaks,
    committed_locally,
    far_away,
    gid_taken,
    here,
    idle_too_long,
    lock_timeout,
    refused_by_the_publisher,
    server_ended,
    slots_taken,
    statement_timeout,
    swallowed,
    swallowed_40001,
    swallowed_in_a_pipeline,
    taken_back,
    transaction_timeout,
    write_skew,
)
from tests.crash.voting import CHANGE, Do
from tests.grid.rig import PUBLISHER, SUBSCRIBER


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case, and the coordinator's expected verdict."""

    do: Do
    votes: tuple[str, str] = ("yes", "yes")
    """Votes of the Publisher and of the Subscriber."""
    told: str = "VoteError"
    """Class of the exception that the application gets; ``committed`` without one."""
    sqlstate: str = ""
    changes: bool = True
    """A row is changed at both sites first."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the coordinator's transaction."""
    apart: bool = False
    """The case changes servers, so no other case may use them meanwhile."""


A_FAILED = "a failed transaction, its error swallowed"
A_DEFERRED = "a deferred constraint that fails at PREPARE"
A_FORBIDDEN = "what PREPARE TRANSACTION forbids"
A_SERVER = "a server that cannot"
A_MEANWHILE = "what happens while it prepares"
A_NOTHING = "nothing, or little, to prepare"
A_ENDS = "the application ends it by itself"

NO = ("no", "no")
HERE = ("yes", "no")

CASES: dict[str, dict[str, Case]] = {
    A_FAILED: {
        "an error": Case(do=swallowed("select 1 / 0"), votes=NO, sqlstate="25P02"),
        "an error in a pipeline": Case(
            do=swallowed_in_a_pipeline, votes=NO, sqlstate="25P02"
        ),
        "40001 under REPEATABLE READ": Case(
            do=swallowed_40001, votes=NO, sqlstate="25P02",
            options={"isolation": "repeatable read"},
        ),
        "40001 under SERIALIZABLE": Case(
            do=swallowed_40001, votes=NO, sqlstate="25P02", options={"isolation": "serializable"},
        ),
        "a statement's timeout": Case(
            do=swallowed("set local statement_timeout = '1ms'; select pg_sleep(5)"),
            votes=NO, sqlstate="25P02",
        ),
        "a refusal of the Publisher's": Case(
            do=refused_by_the_publisher, votes=NO, sqlstate="25P02"
        ),
        "an error, taken back to a savepoint": Case(do=taken_back, told="committed"),
    },
    A_DEFERRED: {
        "a unique key at the Subscriber": Case(
            do=here("insert into only_here values ({0}), ({0})"), votes=HERE, sqlstate="23505"
        ),
        "a foreign key at the Subscriber": Case(
            do=here("insert into child_here values ({})"),
            votes=HERE, told="ConflictError", sqlstate="23503",
        ),
        "a constraint trigger at the Subscriber": Case(
            do=here("insert into gated_here values (-{})"), votes=HERE, sqlstate="P0001"
        ),
        "a unique key at the Publisher": Case(
            do=both("insert into badge values ({}, 0)"),
            votes=NO, told="ConflictError", sqlstate="23505",
        ),
        "a foreign key at the Publisher": Case(
            do=both("insert into entry (id, kind, amount) values ({}, 0, 1)"),
            votes=NO, told="ConflictError", sqlstate="23503",
        ),
        "a constraint trigger at the Publisher": Case(
            do=both("insert into gated values (-{})"), votes=NO, sqlstate="P0001"
        ),
        "a serialization failure (SERIALIZABLE)": Case(
            do=write_skew, votes=NO, told="ConflictError", sqlstate="40001",
            options={"isolation": "serializable"},
        ),
    },
    A_FORBIDDEN: {
        "a temporary table": Case(
            do=here("create temporary table t{} (n int)"), votes=HERE, sqlstate="0A000"
        ),
        "NOTIFY": Case(do=here("notify somebody"), votes=HERE, sqlstate="0A000"),
        "LISTEN": Case(do=here("listen somebody"), votes=HERE, sqlstate="0A000"),
        "a cursor WITH HOLD": Case(
            do=here("declare c cursor with hold for select 1"), votes=HERE, sqlstate="0A000"
        ),
        "an exported snapshot": Case(
            do=here("select pg_export_snapshot()"), votes=HERE, sqlstate="0A000"
        ),
        "a look through postgres_fdw": Case(do=far_away, votes=HERE, sqlstate="0A000"),
        "one advisory key for session and transaction": Case(
            do=here("select pg_advisory_lock({0}), pg_advisory_xact_lock({0})"),
            votes=HERE, sqlstate="0A000",
        ),
    },
    A_SERVER: {
        "the gid is taken at the Subscriber": Case(
            do=gid_taken(SUBSCRIBER), votes=HERE, sqlstate="42710"
        ),
        "the gid is taken at the Publisher": Case(
            do=gid_taken(PUBLISHER), votes=NO, sqlstate="42710"
        ),
        "all slots are taken at the Subscriber": Case(
            do=slots_taken(SUBSCRIBER), votes=HERE, sqlstate="53200"
        ),
        "all slots are taken at the Publisher": Case(
            do=slots_taken(PUBLISHER), votes=("unknown", "no"), sqlstate="53200"
        ),
        "prepared transactions are disabled at the Subscriber": Case(
            do=here(), votes=HERE, sqlstate="55000", apart=True
        ),
        "prepared transactions are disabled at the Publisher": Case(
            do=here(), votes=NO, sqlstate="55000", apart=True
        ),
    },
    A_MEANWHILE: {
        "cancelled at the Subscriber": Case(
            do=at_the_gate(SUBSCRIBER, "pg_cancel_backend"), votes=HERE, sqlstate="57014"
        ),
        "cancelled at the Publisher": Case(
            do=at_the_gate(PUBLISHER, "pg_cancel_backend"),
            votes=("unknown", "no"), sqlstate="57014",
        ),
        "its backend terminated at the Subscriber": Case(
            do=at_the_gate(SUBSCRIBER, "pg_terminate_backend"),
            votes=("yes", "unknown"), sqlstate="57P01",
        ),
        "its backend terminated at the Publisher": Case(
            do=at_the_gate(PUBLISHER, "pg_terminate_backend"),
            votes=("unknown", "no"), told="PublisherUnreachableError", sqlstate="08006",
        ),
        "statement_timeout, which does not count at PREPARE": Case(
            do=statement_timeout(), told="committed"
        ),
        "transaction_timeout": Case(
            do=transaction_timeout(), votes=("yes", "unknown"), sqlstate="25P04"
        ),
        "idle_in_transaction_session_timeout, just before": Case(
            do=idle_too_long, votes=("unknown", "no"), sqlstate="25P03"
        ),
        "lock_timeout": Case(
            do=lock_timeout(), votes=HERE, told="LockTimeoutError", sqlstate="55P03"
        ),
        "“committed locally”: no synchronous standby has it": Case(
            do=committed_locally, votes=("yes", "unknown"), apart=True
        ),
        "the server shuts down": Case(
            do=server_ended("shut down"), votes=("yes", "unknown"), sqlstate="57P01", apart=True
        ),
        "the server is killed": Case(
            do=server_ended("killed"), votes=("unknown", "unknown"), sqlstate="08006", apart=True
        ),
    },
    A_NOTHING: {
        "an empty transaction": Case(
            do=here(), votes=("not asked",) * 2, told="committed", changes=False
        ),
        "a read-only one": Case(
            do=here("select balance from account where id = {}"),
            votes=("not asked",) * 2, told="committed", changes=False,
        ),
        "an update of no row": Case(
            do=both("update account set balance = 0 where id = -{}"),
            votes=("not asked",) * 2, told="committed", changes=False,
        ),
        "SELECT FOR UPDATE at the Subscriber": Case(
            do=here("select balance from account where id = {} for update"),
            votes=("nothing to do", "yes"), told="committed", changes=False,
        ),
        "a write at the Subscriber only": Case(
            do=here("insert into only_here values ({})"),
            votes=("nothing to do", "yes"), told="committed", changes=False,
        ),
        "all changes rolled back to a savepoint": Case(
            do=both("savepoint a", CHANGE, "rollback to savepoint a"),
            votes=("nothing to do", "yes"), told="committed", changes=False,
        ),
    },
    A_ENDS: {
        "an exception between two statements": Case(
            do=breaks, votes=("not asked",) * 2, told="ApplicationError"
        ),
        "COMMIT inside a procedure": Case(
            do=here("call commits()"), votes=("not asked",) * 2,
            told="InvalidTransactionTermination", sqlstate="2D000",
        ),
        "COMMIT": Case(do=here("commit"), votes=("not asked",) * 2, told="LocalProtocolError"),
        "COMMIT hidden behind another statement": Case(
            do=here("select 1; commit"), votes=("not asked",) * 2, told="LocalProtocolError"
        ),
        "ROLLBACK": Case(do=here("rollback"), votes=("not asked",) * 2, told="LocalProtocolError"),
        "BEGIN, nested": Case(do=here("begin"), votes=("not asked",) * 2, told="LocalProtocolError"),
        "PREPARE TRANSACTION of its own": Case(
            do=here("prepare transaction 'mine'"), votes=("not asked",) * 2,
            told="LocalProtocolError",
        ),
    },
}  # fmt: skip
"""The cases by group and name."""

DISABLED = {
    "prepared transactions are disabled at the Subscriber": SUBSCRIBER,
    "prepared transactions are disabled at the Publisher": PUBLISHER,
}
"""Cases before which a server is restarted without slots."""
