"""Results of validations, with the original's messages.

Pure: shared by both ends and by the commands that show a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from twopc.distributed_article import DistributedArticle
from twopc.lexer import tokens, unquoted
from twopc.propagation import OPERATION_OF, CommandType, parameters, record_values

#: Values of a key's columns as text, in the key's order.
Key = tuple[str, ...]

_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifference:
    """A row that differs between Publisher and Subscriber."""

    key: Key
    expected: int | None
    """Checksum of the Publisher's row; None if it has no such row."""
    actual: int | None
    """Checksum of the Subscriber's row; None if it has no such row."""

    @property
    def kind(self) -> str:
        """``missing`` or ``extra`` at the Subscriber, or ``changed``."""
        if self.actual is None:
            return "missing"
        return "extra" if self.expected is None else "changed"


@dataclass(slots=True)
class Total:
    """A number of rows and their checksum: the exclusive or of the rows' checksums."""

    rows: int = 0
    checksum: int = 0

    def count(self, checksum: int | None, rows: int = 1) -> None:
        """Add a row, or remove it if `rows` is -1; a checksum of None stands for no row."""
        if checksum is not None:
            self.rows += rows
            self.checksum ^= checksum & _MASK

    def __str__(self) -> str:
        return f"{self.rows} rows, checksum {self.checksum:016x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArticleVerdict:
    """Result of the comparison of one article of one subscription."""

    subscriber: str
    article: str
    expected: Total
    """Total of the Publisher's rows that could be compared."""
    actual: Total
    """Total of the Subscriber's rows that could be compared."""
    key: tuple[str, ...]
    """Names of the key's columns."""
    differences: tuple[RowDifference, ...] = ()
    more: int = 0
    """Number of further rows that differ and are not listed."""
    undecided: tuple[Key, ...] = ()
    """Rows that were changing at every comparison."""
    looks: int = 1
    """Number of comparisons until every row was decided."""
    repaired: tuple[Key, ...] = ()
    """Rows that have since been replaced by the Publisher's."""

    @property
    def passed(self) -> bool:
        """Whether no row differs."""
        return not self.differences

    @property
    def number(self) -> int:
        """Number of the result message: 20575 if passed, 20574 if failed."""
        return 20575 if self.passed else 20574

    def messages(self) -> tuple[tuple[int, str], ...]:
        """Return numbers and texts of the original's messages: the detail, then the result."""
        table, expected, actual = self.article, self.expected, self.actual
        if self.passed:
            detail = (
                20527,
                f"Table '{table}' passed rowcount ({actual.rows}) and checksum validation.",
            )
        elif actual.rows != expected.rows:
            detail = (
                20524,
                f"Table '{table}' may be out of synchronization. Rowcounts (actual: {actual.rows}, "
                f"expected: {expected.rows}).",
            )
        else:
            detail = (
                20525,
                f"Table '{table}' might be out of synchronization. Rowcounts (actual: {actual.rows}, "
                f"expected: {expected.rows}). Checksum values (actual: {actual.checksum:016x}, "
                f"expected: {expected.checksum:016x}).",
            )
        word = "passed" if self.passed else "failed"
        result = (
            self.number,
            f"Subscriber '{self.subscriber}' subscription to article '{table}' {word} data validation.",
        )
        return detail, result

    def named(self) -> list[str]:
        """Return a line for each row that differs: ``changed (id = 7)``."""
        lines = [f"{each.kind} {key_text(self.key, each.key)}" for each in self.differences]
        if self.more:
            lines.append(f"and {self.more} further rows")
        return lines


def key_text(names: Iterable[str], key: Key) -> str:
    """Return a key as text: ``(id = 7)``."""
    return "(" + ", ".join(f"{n} = {v}" for n, v in zip(names, key, strict=True)) + ")"


def parse_key(text: str) -> Key:
    """Return a key from PostgreSQL's text form of a row; a key's columns are never NULL."""
    return tuple((value or b"").decode() for value in record_values(text.encode()))


# -- the rows that a command touches --------------------------------------------------------------


def touched_keys(article: DistributedArticle, command_type: int, command: str) -> set[Key]:
    """Return the keys of the rows that a command of the article inserts, changes or deletes."""
    operation = OPERATION_OF.get(command_type)
    if operation is None:
        return _keys_of_statement(article, command_type, command)
    form = article.propagation.method(operation).format
    values = record_values(command.encode())
    expected = parameters(article.article, operation, form)
    if len(expected) != len(values):
        # made before the article was regenerated: its keys are unknown
        return set()
    images: dict[str, dict[str, bytes | None]] = {}
    for parameter, value in zip(expected, values, strict=True):
        if parameter.column is not None:
            images.setdefault(parameter.image, {})[parameter.column.name] = value
    names = article.article.key
    before = images.get("key") or images.get("old") or {}
    keys = []
    if before:
        keys.append([before.get(name) for name in names])
    if "new" in images:
        # SCALL leaves out unchanged columns
        new = images["new"]
        keys.append([before.get(n) if new.get(n) is None else new.get(n) for n in names])
    return {tuple(v.decode() for v in key if v is not None) for key in keys if None not in key}


def _keys_of_statement(article: DistributedArticle, command_type: int, statement: str) -> set[Key]:
    """Return the keys of the rows that a statement written by `twopc.publisher.commands` touches."""
    names, columns = article.article.key, article.article.value_columns
    results = list(_literals(statement))
    if command_type == CommandType.SQL_INSERT:
        values = {c.name: v for c, (_, v) in zip(columns, results, strict=True)}
        keys = [[values[name] for name in names]]
    else:
        # the condition is the end of the statement: one value per column of the key
        cut = len(results) - len(names)
        before = dict(zip(names, (value for _, value in results[cut:]), strict=True))
        given = dict(results[:cut])
        keys = [[before[name] for name in names], [given.get(n, before[n]) for n in names]]
    return {tuple(value for value in key if value is not None) for key in keys if None not in key}


def _literals(statement: str) -> Iterable[tuple[str, str | None]]:
    """Yield every literal of a statement, with the identifier that precedes it."""
    name = ""
    for token in tokens(statement):
        if token.kind == "quoted":
            name = token.name
        elif token.word == "null":
            yield name, None
        elif token.kind == "string":
            escaped = token.text[0] == "E"
            plain = unquoted(token.text.removeprefix("E"))
            yield name, plain.replace("\\\\", "\\") if escaped else plain
