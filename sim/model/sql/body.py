"""Bodies of functions: PL/pgSQL split into statements and compiled. Expressions and SQL are compiled by `plans`.

The closures of which a compiled body consists are in `steps`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from twopc.lexer import tokens, unquoted
from twopc.sim.model.sql import parse, types
from twopc.sim.model.sql.bind import Context, NamedRow
from twopc.sim.model.sql.steps import (
    StatementBlock,
    Step,
    codes_of,
    complaint,
    gives,
    guarded,
    raise_again,
    repeat,
    without_into,
)  # fmt: skip
from twopc.sim.model.values import SqlError, Steps, UnsupportedError


def sql_body(text: str, variables: frozenset[str], plans: Any) -> StatementBlock:
    """Compile a body in LANGUAGE SQL, which returns the first value of its last statement."""
    results = [plans.compile_with(one, variables) for one in parse.statements(text)]

    def run(tx: Any, c: Context) -> Steps[Any]:
        value = None
        for plan in results:
            result = yield from plan(tx, c.params, c.variables)
            value = result.rows[0][0] if result.rows else None
        return ("return", value)

    return StatementBlock([run])


def plpgsql_body(text: str, variables: frozenset[str], plans: Any) -> StatementBlock:
    """Compile a body in LANGUAGE PLPGSQL."""
    return _BodyParser(text, variables, plans).whole()


def check(text: str) -> None:
    """Raise UnsupportedError, at definition, if a body uses a form that the model does not have."""
    words = parse.words(text)
    for word in ("execute", "cursor", "fetch", "foreach", "get", "assert"):
        if word in words:
            raise UnsupportedError(text, f"{word.upper()} in PL/pgSQL")
    if not words or words[0] not in ("begin", "declare"):
        raise UnsupportedError(text, "a body that does not begin with BEGIN or DECLARE")


class _BodyParser:
    def __init__(self, text: str, variables: frozenset[str], plans: Any) -> None:
        self.text = text
        self.plans = plans
        self.variables = variables
        self.types: dict[str, types.SqlType] = {}
        self.tokens = [
            (token.word or token.text, token.start)
            for token in tokens(text)
            if token.kind != "space"
        ]
        self.place = 0

    # -- tokens --------------------------------------------------------------------------------------

    def word(self, ahead: int = 0) -> str:
        at = self.place + ahead
        return self.tokens[at][0] if at < len(self.tokens) else ""

    def next(self) -> str:
        word = self.word()
        self.place += 1
        return word

    def expect(self, *requested: str) -> None:
        for one in requested:
            if self.next() != one:
                raise SqlError("42601", f'syntax error: "{one}" expected in a function body')

    def until(self, *stops: str) -> str:
        """Return the text up to a word at the current nesting level; that word is the next token."""
        depth = cases = 0
        start = self.tokens[self.place][1] if self.place < len(self.tokens) else len(self.text)
        while self.place < len(self.tokens):
            word, at = self.tokens[self.place]
            if not depth and not cases and word in stops:
                return self.text[start:at].strip()
            depth += {"(": 1, ")": -1}.get(word, 0)
            cases += {"case": 1}.get(word, 0)
            if cases and word == "end":
                cases -= 1
            self.place += 1
        raise SqlError("42601", f"syntax error: {' or '.join(stops)} expected in a function body")

    # -- blocks --------------------------------------------------------------------------------------

    def whole(self) -> StatementBlock:
        return StatementBlock([self.block()])

    def block(self) -> Step:
        setting: list[Step] = []
        if self.word() == "declare":
            self.next()
            while self.word() != "begin":
                setting.append(self.declaration())
        self.expect("begin")
        steps = self.steps("end", "exception")
        handlers = []
        if self.word() == "exception":
            self.next()
            self.variables |= {"sqlerrm", "sqlstate"}
            while self.word() == "when":
                self.next()
                conditions = self.until("then")
                self.expect("then")
                handlers.append((codes_of(conditions), self.steps("when", "end")))
        self.expect("end")
        if self.word() == ";":
            self.next()
        inner = StatementBlock([*setting, *steps])
        return (
            guarded(inner, [(codes, StatementBlock(one)) for codes, one in handlers])
            if handlers
            else inner.run
        )

    def declaration(self) -> Step:
        name = unquoted(self.next())
        if self.word() == "constant":
            self.next()
        text = self.until(";", ":=", "default", "=")
        value = None
        if self.next() != ";":
            value = self.expression(self.until(";"))
            self.expect(";")
        text = re.sub(r"\s+not\s+null\s*\Z", "", text, flags=re.I)
        type_ = None if text.lower() == "record" or "%" in text else types.named(text)
        if type_ is not None:
            self.types[name] = type_
        self.variables |= {name}

        def declare(tx: Any, c: Context) -> Steps[Any]:
            c.snap = tx.statement()
            given = value(c) if value is not None else None
            c.variables[name] = type_.store(given) if type_ is not None else given
            return None
            yield  # makes the step a generator

        return declare

    def steps(self, *stops: str) -> list[Step]:
        results = []
        while self.word() not in stops:
            if not self.word():
                raise SqlError("42601", "syntax error: end expected in a function body")
            results.append(self.step())
        return results

    def step(self) -> Step:
        word = self.word()
        made = {
            "begin": self.block, "declare": self.block, "if": self.choice, "for": self.loop_rows,
            "while": self.loop_while, "loop": self.loop_plain, "return": self.leave, "raise": self.complaint,
            "perform": self.perform, "null": self.nothing, "exit": self.jump, "continue": self.jump,
        }.get(word)  # fmt: skip
        if made is not None:
            return made()
        if word in ("execute", "get", "open", "fetch", "close", "foreach", "assert", "case"):
            raise UnsupportedError(self.text, f"{word.upper()} in PL/pgSQL")
        if self.word(1) in (":=", "=") or (self.word(1) == "." and self.word(3) in (":=", "=")):
            return self.assignment()
        return self.statement()

    def expression(self, text: str) -> Callable[[Context], Any]:
        result: Callable[[Context], Any] = self.plans.expression_with(text, self.variables)
        return result

    # -- statements ----------------------------------------------------------------------------------

    def nothing(self) -> Step:
        self.expect("null", ";")
        return gives(None)

    def jump(self) -> Step:
        verb = self.next()
        condition = None
        if self.word() == "when":
            self.next()
            condition = self.expression(self.until(";"))
        self.expect(";")

        def run(tx: Any, c: Context) -> Steps[Any]:
            c.snap = tx.statement()
            return verb if condition is None or condition(c) is True else None
            yield  # makes the step a generator

        return run

    def assignment(self) -> Step:
        name = unquoted(self.next())
        field = ""
        if self.word() == ".":
            self.next()
            field = unquoted(self.next())
        self.next()
        value = self.expression(self.until(";"))
        self.expect(";")
        type_ = self.types.get(name)

        def run(tx: Any, c: Context) -> Steps[Any]:
            c.snap = tx.statement()
            given = value(c)
            if field:
                record = c.variables[name]
                if record.values is None or field not in record.at:
                    raise SqlError("42703", f'record "{name}" has no field "{field}"')
                record.values[record.at[field]] = given
            else:
                c.variables[name] = type_.store(given) if type_ is not None else given
            return None
            yield  # makes the step a generator

        return run

    def choice(self) -> Step:
        branches: list[tuple[Callable[[Context], Any] | None, StatementBlock]] = []
        word = self.next()
        while word in ("if", "elsif", "elseif"):
            condition = self.expression(self.until("then"))
            self.expect("then")
            branches.append(
                (condition, StatementBlock(self.steps("elsif", "elseif", "else", "end")))
            )
            word = self.next()
        if word == "else":
            branches.append((None, StatementBlock(self.steps("end"))))
            self.next()
        self.expect("if", ";")

        def run(tx: Any, c: Context) -> Steps[Any]:
            for condition, block in branches:
                c.snap = tx.statement()
                if condition is None or condition(c) is True:
                    return (yield from block.run(tx, c))
            return None

        return run

    def _loop(self, rounds: Callable[[Any, Context, StatementBlock], Steps[Any]]) -> Step:
        self.expect("loop")
        block = StatementBlock(self.steps("end"))
        self.expect("end", "loop", ";")
        return lambda tx, c: rounds(tx, c, block)

    def loop_plain(self) -> Step:
        return self._loop(lambda tx, c, block: repeat(tx, c, block, None))

    def loop_while(self) -> Step:
        self.next()
        condition = self.expression(self.until("loop"))
        return self._loop(lambda tx, c, block: repeat(tx, c, block, condition))

    def loop_rows(self) -> Step:
        self.next()
        name = unquoted(self.next())
        self.expect("in")
        if self.word() not in ("select", "(", "with", "values") or ".." in self._ahead("loop"):
            first = self.expression(self.until(".."))
            self.expect("..")
            last = self.expression(self.until("loop"))
            self.variables |= {name}

            def count(tx: Any, c: Context, block: StatementBlock) -> Steps[Any]:
                c.snap = tx.statement()
                for number in range(first(c), last(c) + 1):
                    c.variables[name] = number
                    signal = yield from block.run(tx, c)
                    if signal == "exit":
                        return None
                    if isinstance(signal, tuple):
                        return signal
                return None

            return self._loop(count)
        plan = self.plans.compile_with(self.until("loop"), self.variables)
        self.variables |= {name}

        def each(tx: Any, c: Context, block: StatementBlock) -> Steps[Any]:
            result = yield from plan(tx, c.params, c.variables)
            at = {column: place for place, column in reversed(list(enumerate(result.names)))}
            for row in result.rows or ():
                c.variables[name] = NamedRow(at, list(row))
                signal = yield from block.run(tx, c)
                if signal == "exit":
                    break
                if isinstance(signal, tuple):
                    return signal
            c.variables["found"] = bool(result.rows)
            return None

        return self._loop(each)

    def _ahead(self, stop: str) -> list[str]:
        results = []
        at = self.place
        while at < len(self.tokens) and self.tokens[at][0] != stop:
            results.append(self.tokens[at][0])
            at += 1
        return results

    def leave(self) -> Step:
        self.next()
        text = self.until(";")
        self.expect(";")
        if text.lower() in ("new", "old"):
            name = text.lower()

            def record(tx: Any, c: Context) -> Steps[Any]:
                return ("return", c.variables[name])
                yield  # makes the step a generator

            return record
        value = self.expression(text) if text else None

        def run(tx: Any, c: Context) -> Steps[Any]:
            c.snap = tx.statement()
            return ("return", value(c) if value is not None else None)
            yield  # makes the step a generator

        return run

    def perform(self) -> Step:
        self.next()
        plan = self.plans.compile_with(f"select {self.until(';')}", self.variables)
        self.expect(";")

        def run(tx: Any, c: Context) -> Steps[Any]:
            result = yield from plan(tx, c.params, c.variables)
            c.variables["found"] = bool(result.rowcount)

        return run

    def statement(self) -> Step:
        text = self.until(";")
        self.expect(";")
        text, targets, strict = without_into(text)
        plan = self.plans.compile_with(text, self.variables)
        self.variables |= set(targets)
        kinds = self.types

        def run(tx: Any, c: Context) -> Steps[Any]:
            result = yield from plan(tx, c.params, c.variables)
            c.variables["found"] = result.rowcount > 0
            if targets:
                rows = result.rows or ()
                if strict and len(rows) != 1:
                    raise (
                        SqlError("P0003", "query returned more than one row")
                        if rows
                        else SqlError("P0002", "query returned no rows")
                    )
                first = rows[0] if rows else (None,) * len(result.names)
                if len(targets) == 1 and targets[0] not in kinds and len(result.names) > 1:
                    at = {
                        column: place for place, column in reversed(list(enumerate(result.names)))
                    }
                    c.variables[targets[0]] = NamedRow(at, list(first))
                    return None
                for name, value in zip(targets, first, strict=False):
                    c.variables[name] = kinds[name].store(value) if name in kinds else value
            return None

        return run

    def complaint(self) -> Step:
        self.next()
        text = self.until(";")
        self.expect(";")
        words = text.split(None, 1)
        level = words[0].lower() if words else ""
        if level in ("notice", "warning", "info", "log", "debug"):
            return gives(None)
        if not text:
            return raise_again
        rest = words[1] if level == "exception" and len(words) > 1 else text
        return complaint(rest, self.expression)
