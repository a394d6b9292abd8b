"""Analysis of a scenario's SQL: parameters, verbs, tables that are read and written.

It is based on tokens (`twopc.lexer`) instead of a grammar, and does not use a server.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator

from twopc.lexer import SqlToken, statements, tokens, words


def parameters(text: str) -> list[str]:
    """Return the names of the ``:parameters`` in `text`, in order, each once."""
    results = (token.text[1:] for token in tokens(text) if token.kind == "parameter")
    return list(dict.fromkeys(results))


def placeholders(text: str) -> str:
    """Return `text` in the form for psycopg: ``%(name)s`` for ``:name``, and every other ``%`` doubled."""
    return "".join(
        f"%({token.text[1:]})s" if token.kind == "parameter" else token.text.replace("%", "%%")
        for token in tokens(text)
    )


def numbered(text: str, names: list[str]) -> str:
    """Return `text` in the form for PREPARE: ``$1`` for the first of the `names`."""
    return "".join(
        f"${names.index(token.text[1:]) + 1}" if token.kind == "parameter" else token.text
        for token in tokens(text)
    )


_LOCKING = frozenset({"insert", "update", "delete", "merge", "copy", "lock", "share", "call"})


def takes_locks(text: str) -> bool:
    """Return whether other sessions may have to wait for locks that `text` acquires on rows or tables."""
    return any(token.word in _LOCKING for token in tokens(text))


def may_commit(text: str, *, is_open: bool) -> bool:
    """Return whether `text` may commit a transaction, sent while one is open or while none is."""
    heads = [tuple(words(statement[:2])) for statement in statements(text)]
    if any(head[0] in ("commit", "end") or head == ("prepare", "transaction") for head in heads):
        return True
    return not is_open and bool(heads) and heads[0][0] not in ("begin", "start")


def returns_to_savepoint(text: str) -> bool:
    """Return whether `text` is a ROLLBACK TO SAVEPOINT, which is allowed in a failed transaction."""
    result = statements(text)
    head = [token.word for token in result[0][:3]] if result else []
    return head[:1] == ["rollback"] and "to" in head[1:]


def copies(text: str) -> bool:
    """Return whether `text` is a COPY from or to the client, for which a scenario has no data."""
    lines = [word for statement in statements(text) for word in words(statement)]
    return lines[:1] == ["copy"] and not {"stdin", "stdout"}.isdisjoint(lines)


def has(text: str, *phrase: str) -> bool:
    """Return whether these words follow each other in `text`."""
    return follows([token.word for token in tokens(text) if token.kind != "space"], *phrase)


def follows(text: list[str], *phrase: str) -> bool:
    """Return whether the words of `phrase` follow each other in the words of a statement."""
    spans = zip(*(text[at:] for at in range(len(phrase))), strict=False)
    return phrase in spans


_MODIFYING = frozenset({"insert", "update", "delete", "merge"})


def verbs(text: str) -> frozenset[str]:
    """Return the kinds of the statements in `text`: their first words, or the statements within a WITH.

    ``select into``, which creates a table, is a kind of its own.
    """
    results: set[str] = set()
    for statement in statements(text):
        message = words(statement)
        first = message[0]
        inside = {
            word for at, word in enumerate(message) if word in _MODIFYING and _commands(message, at)
        }
        if first == "with":
            results |= inside or {"select"}
        else:
            results.add(first)
        if "select" in message and "into" in message and not inside:
            results.add("select into")
    return frozenset(results)


def _commands(text: list[str], at: int) -> bool:
    """Return whether the word at `at` begins a statement, and is not part of FOR UPDATE, DO UPDATE or the like."""
    return at == 0 or text[at - 1] not in {
        "for",
        "key",
        "do",
        "then",
        "before",
        "after",
        "or",
        "on",
    }


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


#: Functions that depend only on their arguments, or at most on the clock.
_PLAIN_FUNCTIONS = _set_of(
    "abs array_agg avg bool_and bool_or ceil ceiling char_length clock_timestamp coalesce concat "
    "concat_ws count date_part date_trunc dense_rank every extract first_value floor format "
    "generate_series greatest initcap json_agg json_build_object jsonb_agg jsonb_build_object lag "
    "last_value lead least left length lower lpad ltrim max md5 min mod now ntile nullif "
    "octet_length overlay percent_rank position power rank repeat replace reverse right round "
    "row_number rpad rtrim sign split_part sqrt string_agg strpos substr substring sum to_char "
    "to_date to_number to_timestamp translate trim trunc upper"
)
#: Other words that may precede a parenthesis.
_BEFORE_BRACKET = _set_of(
    "all and any array as between bigint bit by case cast char character check conflict cross cube "
    "decimal distinct else exists filter float from grouping group having ilike in int integer intersect "
    "interval into is join key lateral like limit materialized nchar not numeric offset on only or "
    "over partition recursive returning rollup row select set sets similar some then time timestamp "
    "timestamptz union update using values varchar varying when where with within except"
)
_ENDS_SOURCES = _set_of(
    "where group order having limit offset fetch for union intersect except returning window set "
    "when values"
)
#: Functions in whose arguments FROM precedes a value.
_WITH_FROM = _set_of("extract substring trim overlay normalize")
_ROW_LOCKS = (("for", "update"), ("for", "share"), ("for", "no"), ("for", "key"))
_PLAIN = frozenset({"select", "insert", "update", "delete", "merge", "values", "table"})


def tables(text: str, known: Collection[str]) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return which of the `known` tables `text` may read, and which it may write or lock; None if that is unknown.

    The result is conservative: a column with the name of a table counts as the table. The result is None for
    anything but plain reads and writes of known tables, such as other relations or user-defined functions.
    """
    reads: set[str] = set()
    writes: set[str] = set()
    if not verbs(text) <= _PLAIN:
        return None
    for statement in statements(text):
        view = _View(statement, known)
        if not view.is_plain():
            return None
        seen = view.mentioned()
        reads |= seen
        writes |= seen if view.locks_rows() else view.written()
    return frozenset(reads), frozenset(writes)


def is_plain(text: str) -> bool:
    """Return whether `text` only reads and changes rows."""
    return verbs(text) <= _PLAIN


def relations(text: str) -> list[SqlToken]:
    """Return the names of tables that `text` reads or changes, if it is plain; names with a schema are omitted."""
    if not is_plain(text):
        return []
    return [name for each in statements(text) for name in _View(each, ()).relations()]


class _View:
    """Analysis of the relations and functions in one statement."""

    def __init__(self, statement: list[SqlToken], known: Collection[str]) -> None:
        self._tokens = statement
        self._known = frozenset(known)
        self._words = words(statement)
        self._names = [token.name for token in statement]
        self._ctes = self._common_tables()

    def _text(self, at: int) -> str:
        return self._tokens[at].text if 0 <= at < len(self._tokens) else ""

    def _common_tables(self) -> frozenset[str]:
        if self._words[0] != "with":
            return frozenset()
        results = set()
        for at, name in enumerate(self._names):
            after = self._closing(at + 1) + 1 if self._text(at + 1) == "(" else at + 1
            if name and self._words[after : after + 1] == ["as"]:
                body = after + 1
                while self._words[body : body + 1] and self._words[body] in ("not", "materialized"):
                    body += 1
                if self._text(body) == "(":
                    results.add(name)
        return frozenset(results)

    def mentioned(self) -> set[str]:
        """Return the known tables whose names occur in the statement."""
        return {name for name in self._names if name in self._known}

    def locks_rows(self) -> bool:
        """Return whether the statement has FOR UPDATE or a weaker row lock."""
        return any(pair in _ROW_LOCKS for pair in itertools.pairwise(self._words))

    def written(self) -> set[str]:
        """Return the target tables of the statement's INSERT, UPDATE, DELETE and MERGE."""
        return {name for at in self._targets() if (name := self._relation(at)[0])}

    def _targets(self) -> Iterator[int]:
        for at, word in enumerate(self._words):
            if word in _MODIFYING and _commands(self._words, at):
                following = self._words[at + 1 : at + 2]
                yield at + (2 if following and following[0] in ("into", "from") else 1)

    def is_plain(self) -> bool:
        """Return whether every relation is known and every function plain, and no name is ambiguous."""
        if self._ctes & self._known:
            return False
        relations = [*self._targets(), *self._sources()]
        return all(self._fits(at) for at in relations) and all(map(self._calls_plainly, range(len(self._tokens))))  # fmt: skip

    def relations(self) -> Iterator[SqlToken]:
        """Yield the names used as tables, without the statement's own CTEs and functions."""
        targets = {*self._targets()}
        for at in dict.fromkeys([*targets, *self._sources()]):
            while self._words[at : at + 1] and (
                self._words[at] in ("only", "lateral") or self._text(at) == "("
            ):
                at += 1
            name = self._names[at] if at < len(self._names) else ""
            is_function = self._text(at + 1) == "(" and at not in targets
            is_rows_from = self._words[at : at + 2] == ["rows", "from"]
            if name in ("", *_PLAIN, "with", *self._ctes) or is_function or is_rows_from:
                continue
            if self._text(at + 1) != "." and not self._is_argument(at):
                yield self._tokens[at]

    def _is_argument(self, at: int) -> bool:
        """Return whether the name follows the FROM of extract(year from x) or a similar function."""
        depth = 0
        for here in range(at, -1, -1):
            depth += (self._text(here) == ")") - (self._text(here) == "(")
            if depth < 0:
                return self._names[here - 1] in _WITH_FROM
        return False

    def _relation(self, at: int) -> tuple[str, int]:
        """Return the relation named at `at` without its schema, and the position after it; empty if it has another
        schema.
        """
        while self._words[at : at + 1] and self._words[at] in ("only", "lateral"):
            at += 1
        name = self._names[at] if at < len(self._names) else ""
        if self._text(at + 1) == ".":
            schema, at = name, at + 2
            name = self._names[at] if schema == "public" and at < len(self._names) else ""
        return name, at + 1

    def _fits(self, at: int) -> bool:
        if self._text(at) == "(":
            inner = self._words[at + 1 : at + 2]
            begins_query = inner and inner[0] in (*_PLAIN, "with")
            return bool(begins_query) or self._fits(at + 1)
        name, after = self._relation(at)
        if self._text(after) == "(" and name in _PLAIN_FUNCTIONS:
            return True
        return name in self._known or name in self._ctes

    def _sources(self) -> Iterator[int]:
        """Yield the positions of relations that are read: after FROM, JOIN and USING, and after the commas that
        follow.
        """
        for at, word in enumerate(self._words):
            before = self._words[at - 1] if at else ""
            names_one = (
                word == "join"
                or (word == "from" and before not in ("delete", "distinct"))
                or (word == "table" and before in ("", "as"))
                or (word == "using" and not self._lists_columns(at + 1))
            )
            if names_one:
                yield at + 1
            if word in ("from", "using", "join"):
                yield from self._after_commas(at + 1)

    def _lists_columns(self, at: int) -> bool:
        """Return whether a parenthesis without a query begins there: the columns of a join's USING."""
        return self._text(at) == "(" and self._words[at + 1 : at + 2] not in (["select"], ["with"])

    def _after_commas(self, at: int) -> Iterator[int]:
        depth = 0
        for here in range(at, len(self._tokens)):
            mark = self._text(here)
            depth += (mark == "(") - (mark == ")")
            if depth < 0 or (depth == 0 and self._words[here] in _ENDS_SOURCES):
                return
            if depth == 0 and mark == ",":
                yield here + 1

    def _calls_plainly(self, at: int) -> bool:
        name = self._names[at]
        if not name or self._text(at + 1) != "(":
            return True
        if self._text(at - 1) == ".":
            return self._text(at - 2) in ("public", "pg_catalog") and name in (
                self._known if self._text(at - 2) == "public" else _PLAIN_FUNCTIONS
            )
        harmless = _PLAIN_FUNCTIONS | _BEFORE_BRACKET | self._known | self._ctes
        return name in harmless or self._names[at - 1 : at] == ["as"]

    def _closing(self, at: int) -> int:
        """Return the position of the parenthesis that closes the one at `at`."""
        depth = 0
        for here in range(at, len(self._tokens)):
            depth += (self._text(here) == "(") - (self._text(here) == ")")
            if depth == 0:
                return here
        return len(self._tokens)
