"""SQL text of the objects made of a published routine at the Publisher.

Pure. The body goes to a separate schema, under its own name, by which it may qualify its arguments. A runner
calls the body between two call markers, and the routine's new definition calls the runner.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from twopc import names
from twopc.errors import ArticleError
from twopc.proc_execution import PROC_SCHEMA, Argument, ProcArticle
from twopc.sql import fragments as f
from twopc.sql.fragments import qualified, raw
from twopc.sql.render import compose, render

_EMPTY = sql.SQL("")
_ROWS_OF = "select * from"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSignature:
    """A routine's signature, as printed by the server."""

    arguments: str
    """``pg_get_function_arguments``: names, modes, types and defaults."""
    result: str
    """``pg_get_function_result``; empty for a procedure."""
    head: str
    """Beginning of the definition, up to the opening parenthesis of the arguments."""
    strict: bool = False


def body_schema(article_id: int) -> str:
    """Return the schema that holds a published routine's body."""
    return f"{names.SCHEMA}_body_{article_id}"


def drop_texts(article_id: int) -> list[str]:
    """Return statements that drop all objects made of a routine, after its definition is restored."""
    return [
        *(f"drop routine if exists {PROC_SCHEMA}.{each}_{article_id}" for each in ("args", "run")),
        f"drop schema if exists {body_schema(article_id)} cascade",
    ]


class RoutineTexts:
    """SQL texts of one published routine.

    Args:
        article: with its definition.
        signature: of the same routine.
    """

    def __init__(self, article: ProcArticle, signature: ServerSignature) -> None:
        self._article = article
        self._signature = signature
        self._number = article.article_id
        self._places = tuple(enumerate(article.arguments, 1))
        self._outs = tuple(p for p, each in self._places if each.mode in ("o", "b", "t"))
        self._kind = "procedure" if article.kind == "p" else "function"

    def all(self) -> list[str]:
        """Return the texts of all objects, in the order of creation; the routine itself is replaced last."""
        return [*self.body(), self.arguments(), self.runner(), self.wrapper()]

    def body(self) -> list[str]:
        """Return the texts of the body's schema, and of the routine's definition in it.

        Raises:
            ArticleError: the definition does not begin as the server prints one.
        """
        article, head = self._article, self._signature.head
        if not article.definition.startswith(head):
            raise ArticleError(
                f"routine {article.identity}: its definition cannot be read: {article.definition[:80]!r}"
            )
        rest = article.definition[len(head) :]
        name = self._body_name()
        return [
            render(
                "twopc.publisher",
                "proc_body_schema",
                name=sql.Identifier(body_schema(self._number)),
            ),
            f"CREATE OR REPLACE {self._kind.upper()} {name}({rest}",
        ]

    def arguments(self) -> str:
        """Return the text of the function that makes the stored form of a call."""
        given = self._article.given
        values = [
            sql.SQL("case when num_nulls(${n}) = 0 then concat(${n}) end").format(n=raw(str(n)))
            for n in range(2, len(given) + 2)
        ]
        types: sql.Composable = _EMPTY
        if any(_polymorphic(each) for each in given):
            names = [
                sql.SQL("pg_typeof(${})::text").format(raw(str(n)))
                for n in range(2, len(given) + 2)
            ]
            types = sql.SQL(", 't', jsonb_build_array({})").format(f.COMMA.join(names))
        signature = f.COMMA.join([raw("jsonb"), *(raw(each.type) for each in given)])
        return render(
            "twopc.publisher",
            "proc_arguments",
            name=sql.Identifier(f"args_{self._number}"),
            parameters=signature,
            signature=signature,
            values=f.COMMA.join(values),
            types=types,
        )

    def runner(self) -> str:
        """Return the text of the routine that runs the body between the markers."""
        article = self._article
        given = [f"p{place}" for place, each in self._places if each.given]
        call, answer, variables = self._body_call()
        text: sql.Composable = raw(f"    {call}")
        routine = sql.Literal(f"routine {article.identity}")
        if not article.xact_abort:
            nothing = "".join(f" p{place} := null;" for place in self._outs)
            text = compose(
                "twopc.publisher",
                "proc_abort_off",
                call=raw(call),
                article=routine,
                nothing=raw(nothing + (" answer := null;" if variables else "")),
            )
        return render(
            "twopc.publisher",
            "proc_runner",
            kind=raw(self._kind),
            name=sql.Identifier(f"run_{self._number}"),
            parameters=f.COMMA.join([_parameter(place, each) for place, each in self._places]),
            returns=self._run_returns(),
            article=sql.Literal(self._number),
            arguments=raw(f"args_{self._number}({', '.join(['msrepl_call.settings()', *given])})"),
            variables=raw(variables),
            body=text,
            answer=raw(answer),
        )

    def wrapper(self) -> str:
        """Return the text of the definition that takes the routine's place."""
        article, signature = self._article, self._signature
        name = f"{PROC_SCHEMA}.run_{self._number}"
        passed = ", ".join(_passed(each, f"${place}") for place, each in self._passed())
        if article.kind == "p":
            call = f"call {name}({passed});"
        elif article.returns_set:
            call = f"return query {_ROWS_OF} {name}({passed});"
        elif self._outs:
            into = ", ".join(f"${place}" for place in self._outs)
            call = f"{_row_into(into)} {name}({passed});"
        elif signature.result == "void":
            call = f"perform {name}({passed});"
        else:
            call = f"return {name}({passed});"
        return render(
            "twopc.publisher",
            "proc_wrapper",
            kind=raw(self._kind),
            name=qualified(article.schema, article.name),
            parameters=raw(signature.arguments),
            returns=self._returns(),
            attributes=raw(" strict" if signature.strict else ""),
            call=raw(call),
        )

    def _body_name(self) -> str:
        return qualified(body_schema(self._number), self._article.name).as_string(None)

    def _passed(self) -> list[tuple[int, Argument]]:
        """Return the arguments to pass in a call: all of a procedure's, the input arguments of a function's."""
        return [(p, each) for p, each in self._places if self._article.kind == "p" or each.given]

    def _returns(self) -> sql.Composable:
        if self._article.kind == "p":
            return _EMPTY
        if self._outs and not self._article.returns_set:
            return _EMPTY  # determined by the parameters
        return sql.SQL(" returns {}").format(raw(self._signature.result))

    def _run_returns(self) -> sql.Composable:
        """Return the result clause, with columns of a table as parameters.

        Otherwise as `_returns`. The columns' names may conflict with the runner's.
        """
        if not (self._outs and self._article.returns_set):
            return self._returns()
        types = [self._article.arguments[place - 1].type for place in self._outs]
        return raw(f" returns setof {types[0] if len(types) == 1 else 'record'}")

    def _body_call(self) -> tuple[str, str, str]:
        """Return the statement that runs the body, the one that returns its result, and further variables."""
        article = self._article
        name = self._body_name()
        passed = ", ".join(_passed(each, f"p{place}") for place, each in self._passed())
        if article.kind == "p":
            return f"call {name}({passed});", "", ""
        if article.returns_set:
            return f"return query {_ROWS_OF} {name}({passed});", "", ""
        if self._outs:
            into = ", ".join(f"p{place}" for place in self._outs)
            return f"{_row_into(into)} {name}({passed});", "", ""
        if self._signature.result == "void":
            return f"perform {name}({passed});", "", ""
        if self._signature.result.startswith("any"):
            return f"$0 := {name}({passed});", "\n    return $0;", ""
        answer = f"\n    answer {self._signature.result};"
        return f"answer := {name}({passed});", "\n    return answer;", answer


def _row_into(variables: str) -> str:
    return f"select * into {variables} from"


def _polymorphic(argument: Argument) -> bool:
    return argument.type.startswith("any")


def _parameter(place: int, argument: Argument) -> sql.Composable:
    mode = {"i": "", "o": "out ", "b": "inout ", "v": "variadic ", "t": "out "}[argument.mode]
    return raw(f"{mode}p{place} {argument.type}")


def _passed(argument: Argument, value: str) -> str:
    return f"variadic {value}" if argument.mode == "v" else value
