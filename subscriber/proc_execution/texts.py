"""The SQL of routines at a Subscriber: functions that perform stored calls, and that apply new definitions.

Pure: text in, text out.
"""

from __future__ import annotations

from psycopg import sql

from twopc.names import SCHEMA
from twopc.proc_execution import Argument, ProcArticle
from twopc.sql import fragments as f
from twopc.sql.render import compose, render
from twopc.sql.table_role import runs_as

#: Types whose SQL name without a length means a length of one, with the names of the unlimited types.
_UNLIMITED_NAMES = {"character": "bpchar", "bit": '"bit"'}


def apply_call_function(article_id: int) -> str:
    """Return the name of the function that performs the calls of an article, in schema msrepl."""
    return f"apply_{article_id}_call"


def apply_definition_function(article_id: int) -> str:
    """Return the name of the function that applies the definitions of an article, in schema msrepl."""
    return f"apply_{article_id}_definition"


def shared_texts(owner: sql.Identifier) -> list[str]:
    """Return the text of the objects that must exist before the first routine."""
    return [
        render("twopc.subscriber", "proc_catalog", owner=owner),
        render("twopc.subscriber", "define_routine", owner=owner),
    ]


def definition_text(article: ProcArticle, owner: sql.Identifier, agent: sql.Identifier) -> str:
    """Return the text of the function that applies an article's definitions."""
    return render(
        "twopc.subscriber",
        "apply_proc_definition",
        function=sql.Identifier(SCHEMA, apply_definition_function(article.article_id)),
        article=sql.Literal(article.article_id),
        owner=owner,
        agent=agent,
        comment=sql.Literal(f"A new definition of {article.identity}"),
    )


def call_text(article: ProcArticle, calls: str, agent: sql.Identifier) -> str:
    """Return the text of the function that performs an article's calls.

    Args:
        calls: role with whose privileges the calls are made.
    """
    given = [sql.SQL("given[{}]").format(place + 1) for place in range(len(article.given))]
    return render(
        "twopc.subscriber",
        "apply_proc_call",
        function=sql.Identifier(SCHEMA, apply_call_function(article.article_id)),
        invocation=invocation(article),
        given=sql.SQL(" using {}").format(f.COMMA.join(given)) if given else sql.SQL(""),
        identity=sql.Literal(article.identity),
        runs_as=runs_as(calls),
        path_stays=compose("twopc.subscriber", "path_stays"),
        owner=sql.Identifier(calls),
        agent=agent,
        comment=sql.Literal(f"One call of {article.identity}"),
    )


def invocation(article: ProcArticle) -> sql.Composable:
    """Return the executed statement as an expression; polymorphic arguments take their types from the call."""
    polymorphic = [place for place, each in enumerate(article.given) if _is_polymorphic(each)]
    passed: list[sql.Composable] = []
    place = 0
    for each in article.arguments:
        if each.given:
            place += 1
            type_ = "%s" if place - 1 in polymorphic else _type(each.type, escape=bool(polymorphic))
            word = "variadic " if each.mode == "v" else ""
            passed.append(sql.SQL(f"{word}${place}::{{}}").format(f.raw(type_)))
        elif each.mode == "o" and article.kind == "p":
            passed.append(sql.NULL)
    name = sql.Identifier(article.schema, article.name).as_string(None)
    if polymorphic:
        name = name.replace("%", "%%")
    verb = "call" if article.kind == "p" else "select from"
    arguments = f.COMMA.join(passed).as_string(None)
    text = sql.Literal(f"{verb} {name}({arguments})")
    if not polymorphic:
        return text
    types = [sql.SQL("types ->> {}").format(place) for place in polymorphic]
    return sql.SQL("pg_catalog.format({}, {})").format(text, f.COMMA.join(types))


def _is_polymorphic(argument: Argument) -> bool:
    return argument.type.startswith("any")


def _type(name: str, *, escape: bool) -> str:
    base = name.removesuffix("[]")
    result = _UNLIMITED_NAMES.get(base, base) + name[len(base) :]
    return result.replace("%", "%%") if escape else result
