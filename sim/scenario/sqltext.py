"""What a scenario needs to know of its SQL: parameters, verbs, tables that are read and written.

It looks at tokens (`twopc.lexer`), not at grammar, and asks no server.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator

from twopc.lexer import SqlToken, statements, tokens, words


def parameters(text: str) -> list[str]:
    """The names of the ``:parameters`` in `text`, in order, each once."""
    results = (token.text[1:] for token in tokens(text) if token.kind == "parameter")
    return list(dict.fromkeys(results))


def placeholders(text: str) -> str:
    """`text` as psycopg wants it: ``%(name)s`` for ``:name``, and every other ``%`` doubled."""
    return "".join(
        f"%({token.text[1:]})s" if token.kind == "parameter" else token.text.replace("%", "%%")
        for token in tokens(text)
    )


def numbered(text: str, names: list[str]) -> str:
    """`text` as PREPARE wants it: ``$1`` for the first of the `names`."""
    return "".join(
        f"${names.index(token.text[1:]) + 1}" if token.kind == "parameter" else token.text
        for token in tokens(text)
    )


_LOCKING = frozenset({"insert", "update", "delete", "merge", "copy", "lock", "share", "call"})


def takes_locks(text: str) -> bool:
    """Whether others could wait for what `text` did: it writes, or locks rows or tables."""
    return any(token.word in _LOCKING for token in tokens(text))


def may_commit(text: str, *, is_open: bool) -> bool:
    """Whether something is committed by `text`, sent while a transaction is open or while none is."""
    heads = [tuple(words(statement[:2])) for statement in statements(text)]
    if any(head[0] in ("commit", "end") or head == ("prepare", "transaction") for head in heads):
        return True
    return not is_open and bool(heads) and heads[0][0] not in ("begin", "start")


def returns_to_savepoint(text: str) -> bool:
    """Whether `text` is a ROLLBACK TO a savepoint, which a failed transaction still takes."""
    result = statements(text)
    return bool(result) and result[0][0].word == "rollback" and _to_savepoint(result[0])


def _to_savepoint(rollback: list[SqlToken]) -> bool:
    return "to" in (token.word for token in rollback[1:3])


def copies(text: str) -> bool:
    """Whether `text` is a COPY through the client, for which a scenario has no data."""
    lines = [word for statement in statements(text) for word in words(statement)]
    return lines[:1] == ["copy"] and not {"stdin", "stdout"}.isdisjoint(lines)


def has(text: str, *phrase: str) -> bool:
    """Whether these words follow each other in `text`."""
    return follows([token.word for token in tokens(text) if token.kind != "space"], *phrase)


def follows(text: list[str], *phrase: str) -> bool:
    """Whether the words of `phrase` follow each other in a statement's."""
    spans = zip(*(text[at:] for at in range(len(phrase))), strict=False)
    return phrase in spans


_MODIFYING = frozenset({"insert", "update", "delete", "merge"})


def verbs(text: str) -> frozenset[str]:
    """What the statements of `text` are: their first words; of a WITH, what is in it.

    ``select into``, which makes a table, is a verb of its own.
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
    """Whether the word at `at` begins a statement, and is no part of FOR UPDATE or DO UPDATE."""
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


#: Functions that see nothing but their arguments, or at most the clock.
_PLAIN_FUNCTIONS = _set_of(
    "abs array_agg avg bool_and bool_or ceil ceiling char_length clock_timestamp coalesce concat "
    "concat_ws count date_part date_trunc dense_rank every extract first_value floor format "
    "generate_series greatest initcap json_agg json_build_object jsonb_agg jsonb_build_object lag "
    "last_value lead least left length lower lpad ltrim max md5 min mod now ntile nullif "
    "octet_length overlay percent_rank position power rank repeat replace reverse right round "
    "row_number rpad rtrim sign split_part sqrt string_agg strpos substr substring sum to_char "
    "to_date to_number to_timestamp translate trim trunc upper"
)
#: What else stands before a bracket.
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
#: Functions in whose brackets FROM stands before a value.
_WITH_FROM = _set_of("extract substring trim overlay normalize")
_ROW_LOCKS = (("for", "update"), ("for", "share"), ("for", "no"), ("for", "key"))
_PLAIN = frozenset({"select", "insert", "update", "delete", "merge", "values", "table"})


def tables(text: str, known: Collection[str]) -> tuple[frozenset[str], frozenset[str]] | None:
    """Which of the `known` tables `text` may read and may write or lock; None: it cannot be said.

    On the safe side: a column that is called like a table counts as the table, and whatever is not
    plain reading and writing of known tables (other relations, functions of somebody's) gives None.
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
    """Whether `text` only reads and changes rows."""
    return verbs(text) <= _PLAIN


def relations(text: str) -> list[SqlToken]:
    """The names of tables that `text` reads or changes, as far as it is plain; none with a schema."""
    if not is_plain(text):
        return []
    return [name for each in statements(text) for name in _View(each, ()).relations()]


class _View:
    """One statement, looked at for the relations and functions in it."""

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
        """Known tables by whose name anything here is called."""
        return {name for name in self._names if name in self._known}

    def locks_rows(self) -> bool:
        """It selects FOR UPDATE or weaker."""
        return any(pair in _ROW_LOCKS for pair in itertools.pairwise(self._words))

    def written(self) -> set[str]:
        """The targets of its INSERT, UPDATE, DELETE and MERGE."""
        return {name for at in self._targets() if (name := self._relation(at)[0])}

    def _targets(self) -> Iterator[int]:
        for at, word in enumerate(self._words):
            if word in _MODIFYING and _commands(self._words, at):
                following = self._words[at + 1 : at + 2]
                yield at + (2 if following and following[0] in ("into", "from") else 1)

    def is_plain(self) -> bool:
        """Every relation is known and every function plain; no name means two things."""
        if self._ctes & self._known:
            return False
        relations = [*self._targets(), *self._sources()]
        return all(self._fits(at) for at in relations) and all(map(self._calls_plainly, range(len(self._tokens))))  # fmt: skip

    def relations(self) -> Iterator[SqlToken]:
        """What it names as a table, and not as its own CTE or as a function."""
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
        """It stands after the FROM of extract(year from x) or of the like."""
        depth = 0
        for here in range(at, -1, -1):
            depth += (self._text(here) == ")") - (self._text(here) == "(")
            if depth < 0:
                return self._names[here - 1] in _WITH_FROM
        return False

    def _relation(self, at: int) -> tuple[str, int]:
        """The relation named at `at` without its schema, and the place after it; empty: not ours."""
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
        """Where what is read is named: after FROM, JOIN and USING, and after the commas that follow."""
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
        """A bracket stands there that holds no query: the columns of a join's USING."""
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
        """Where the bracket that opens at `at` is closed."""
        depth = 0
        for here in range(at, len(self._tokens)):
            depth += (self._text(here) == "(") - (self._text(here) == ")")
            if depth == 0:
                return here
        return len(self._tokens)
