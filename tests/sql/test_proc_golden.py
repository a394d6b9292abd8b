"""Golden tests of the SQL that is generated for published routines."""

from __future__ import annotations

import pytest

from tests.fix_golden import Golden
from tests.sql.test_golden import whole
from twopc.proc_execution import Argument, ProcArticle
from twopc.publisher.proc_execution.texts import RoutineTexts, ServerSignature, drop_texts


def article(definition: str, *arguments: Argument, **more: object) -> ProcArticle:
    """Return a routine, as the server describes it."""
    made = {"schema": "public", "name": "give_raise", "kind": "p", **more}
    return ProcArticle(article_id=7, arguments=arguments, definition=definition, **made)  # type: ignore[arg-type]


def argument(name: str, type: str, mode: str = "i") -> Argument:
    """Return an argument of a routine."""
    return Argument(name=name, mode=mode, type=type)


GIVE_RAISE = "CREATE OR REPLACE PROCEDURE public.give_raise("
ODD = 'CREATE OR REPLACE PROCEDURE "o\'d""d".""" r("'
ROUTINES: dict[str, tuple[ProcArticle, ServerSignature]] = {
    "give_raise": (
        article(f"{GIVE_RAISE}) LANGUAGE sql AS $procedure$update employees$procedure$"),
        ServerSignature(arguments="", result="", head=GIVE_RAISE),
    ),
    "odd": (
        article(
            f"{ODD}... the rest)",
            argument('p"1', "numeric"),
            argument("", 'app."Odd"', "b"),
            argument("x", "anyarray", "v"),
            schema="o'd\"d",
            name='" r(',
        ),
        ServerSignature(
            arguments='IN "p""1" numeric DEFAULT 5, INOUT app."Odd", VARIADIC x anyarray',
            result="",
            head=ODD,
        ),
    ),
    "function": (
        article(
            "CREATE OR REPLACE FUNCTION public.give_raise(pct integer) ...",
            argument("pct", "integer"),
            argument("id", "integer", "t"),
            argument("opened", "text", "t"),
            kind="f",
            returns_set=True,
        ),
        ServerSignature(
            arguments="pct integer",
            result="TABLE(id integer, opened text)",
            head="CREATE OR REPLACE FUNCTION public.give_raise(",
            strict=True,
        ),
    ),
    "xact_abort_off": (
        article(
            f"{GIVE_RAISE}INOUT n integer) ...", argument("n", "integer", "b"), xact_abort=False
        ),
        ServerSignature(arguments="INOUT n integer", result="", head=GIVE_RAISE),
    ),
}


@pytest.mark.parametrize("name", ROUTINES)
def test_a_published_routine(golden: Golden, name: str) -> None:
    """The body, arguments, runner and replacement of a routine, and what drops them."""
    texts = RoutineTexts(*ROUTINES[name])
    golden(f"publisher/proc_{name}.sql", whole([*texts.all(), *drop_texts(7)]))
