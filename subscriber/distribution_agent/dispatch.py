"""The statements that apply a block of commands, each by its article's function. Pure.

A block is two arrays, made by the distribution database and passed on unchanged: codes, which give article and
type of each command, and the commands themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from twopc.names import SCHEMA
from twopc.proc_execution import CALL_TYPE, DEFINITION_TYPE, base_of, beside
from twopc.propagation import OPERATIONS, TYPE_OF, CommandType, Format
from twopc.subscriber.distribution_agent.loads import SubscribedArticles
from twopc.subscriber.proc_execution.texts import apply_call_function, apply_definition_function
from twopc.subscriber.propagation import apply_function, set_function

#: Difference between the command types of statements and those of calls.
_STATEMENT = CommandType.SQL_INSERT - CommandType.INSERT
#: Number of branches above which codes are searched as a tree.
_BRANCHES_MAX = 8


def code_of(article_id: int, command_type: int) -> int:
    """Return article and type of a command as one number."""
    return article_id * 100 + command_type


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandHandlers:
    """The functions that apply an article's commands of one type at the Subscriber."""

    one: sql.Identifier
    """Function that applies one command."""
    many: sql.Identifier | None = None
    """Function that applies a run of calls as one statement, or reports that it cannot; None for SQL
    statements, and for calls and definitions of routines.
    """


def handlers(subscription: SubscribedArticles) -> dict[int, CommandHandlers]:
    """Return the handlers of the commands that a subscription takes, by code."""
    results: dict[int, CommandHandlers] = {}
    for number, propagation in subscription.propagation:
        article_id = base_of(number)  # rows beside calls have the functions of other rows
        for operation in OPERATIONS:
            form = propagation.method(operation).format
            is_call = form is not Format.SQL
            kind = TYPE_OF[operation] + (0 if is_call else _STATEMENT)
            if form is not Format.NONE:
                results[code_of(number, kind)] = CommandHandlers(
                    one=_function(apply_function(article_id, kind)),
                    many=_function(set_function(article_id, kind)) if is_call else None,
                )
    for article_id in subscription.definitions:
        code = code_of(beside(article_id), DEFINITION_TYPE)
        results[code] = CommandHandlers(one=_function(apply_definition_function(article_id)))
    for article_id in subscription.calls:
        code = code_of(article_id, CALL_TYPE)
        results[code] = CommandHandlers(one=_function(apply_call_function(article_id)))
    return results


def _function(name: str) -> sql.Identifier:
    return sql.Identifier(SCHEMA, name)


def run_text(taker: CommandHandlers) -> str:
    """Return the statement that applies a block of one code: as a set, or one by one if that is not possible.

    The statement returns NULL if the commands were applied as a set.
    """
    assert taker.many is not None
    return (
        sql.SQL(
            "select case when {many}($2::text[]) < 0 then"
            " (select count({one}(c.call)) from unnest($1::int[], $2::text[]) as c(code, call)) end"
        )
        .format(many=taker.many, one=taker.one)
        .as_string()
    )


def dispatch_text(by_code: Mapping[int, CommandHandlers]) -> str:
    """Return the statement that applies blocks of mixed codes.

    The statement returns a single row, not one per command.
    """
    return (
        sql.SQL("select count({}) from unnest($1::int[], $2::text[]) as c(code, call)")
        .format(_tree(sorted(by_code.items())))
        .as_string()
    )


def _tree(cases: Sequence[tuple[int, CommandHandlers]]) -> sql.Composable:
    refuse = sql.SQL("{}(c.code)").format(_function("refuse_command"))
    if not cases:
        return refuse
    if len(cases) <= _BRANCHES_MAX:
        branches = [
            sql.SQL("when {} then {}(c.call)").format(sql.Literal(code), taker.one)
            for code, taker in cases
        ]
        return sql.SQL("case c.code {} else {} end").format(sql.SQL(" ").join(branches), refuse)
    middle = len(cases) // 2
    return sql.SQL("case when c.code < {} then {} else {} end").format(
        sql.Literal(cases[middle][0]), _tree(cases[:middle]), _tree(cases[middle:])
    )
