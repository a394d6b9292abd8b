"""Golden tests of the SQL of routines at a Subscriber; see `tests.sql.test_golden`."""

from __future__ import annotations

from psycopg import sql

from tests.fix_golden import Golden
from twopc.proc_execution import Argument, ProcArticle
from twopc.subscriber.proc_execution.texts import call_text, definition_text, shared_texts

OWNER, AGENT = sql.Identifier("msrepl_owner_0123456789ab"), sql.Identifier("msrepl_agent")
RAISE = ProcArticle(
    article_id=7,
    schema="public",
    name="give_raise",
    kind="p",
    arguments=(
        Argument(name="pct", mode="i", type="numeric"),
        Argument(name="n", mode="o", type="integer"),
    ),
)
ODD = ProcArticle(
    article_id=8,
    schema="odd schema",
    name='50% "off"',
    kind="f",
    arguments=(
        Argument(name="", mode="i", type="anyelement"),
        Argument(name="", mode="i", type="character[]"),
        Argument(name="", mode="v", type="text[]"),
    ),
)


def test_before_the_first_routine(golden: Golden) -> None:
    """The table of routines, and the function that defines them."""
    golden("subscriber/proc_shared.sql", "\n".join(shared_texts(OWNER)))


def test_definition(golden: Golden) -> None:
    """The function that executes a definition."""
    golden("subscriber/proc_definition.sql", definition_text(RAISE, OWNER, AGENT))


def test_call(golden: Golden) -> None:
    """The functions that make calls of a procedure, and of a function with odd names and any types."""
    texts = [call_text(each, "calls", AGENT) for each in (RAISE, ODD)]
    golden("subscriber/proc_call.sql", "\n".join(texts))
