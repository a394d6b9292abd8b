"""The SQL of routines at a Subscriber, whole; see `tests.sql.test_golden`."""

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
    """The table of routines, and what defines them."""
    golden("subscriber/proc_shared.sql", "\n".join(shared_texts(OWNER)))


def test_definition(golden: Golden) -> None:
    """What takes a definition."""
    golden("subscriber/proc_definition.sql", definition_text(RAISE, OWNER, AGENT))


def test_call(golden: Golden) -> None:
    """What makes a call: of a procedure, and of a function with odd names and arguments of any type."""
    texts = [call_text(each, "calls", AGENT) for each in (RAISE, ODD)]
    golden("subscriber/proc_call.sql", "\n".join(texts))
