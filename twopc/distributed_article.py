"""An article as distribution knows it, and what one of its commands says.

Words that the Publisher's end (which makes commands and browses them) and a Subscriber's agent (which
names a command that failed) share. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from twopc import names
from twopc.articles import Article, Column
from twopc.propagation import (
    OPERATIONS,
    CallParameter,
    CommandType,
    Format,
    Propagation,
    changed_columns,
    parameters,
    record_values,
)

_OPERATION = {
    CommandType.INSERT: "ins",
    CommandType.UPDATE: "upd",
    CommandType.DELETE: "del",
}
_VERBS = {"ins": "insert", "upd": "update", "del": "delete"}
_UNQUOTED = re.compile(r"(smallint|integer|bigint|numeric|real|double precision|oid)\b[^\[]*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedArticle:
    """An article with its number and the way its changes travel."""

    article_id: int
    article: Article
    propagation: Propagation = field(default_factory=Propagation)
    procedures: Mapping[str, str]
    """Name of the default procedure by operation, without its schema (the destination table's)."""
    types: tuple[int, ...] = ()
    """Type OIDs of `Article.value_columns` at the Publisher; empty: not known."""
    left_out: tuple[str, ...] = ()
    """Columns of the table that its log holds and that are not published."""
    generated: tuple[str, ...] = ()
    """Generated columns of the table: the log may hold them, depending on kind and server version."""

    def procedure(self, operation: str) -> str:
        """What a Subscriber calls: the custom procedure, else the default one's name."""
        return self.propagation.method(operation).procedure or self.procedures[operation]

    def as_columns(self) -> list[dict[str, object]]:
        """What ``msarticles.columns`` holds: the columns that travel."""
        types = self.types or (0,) * len(self.article.value_columns)
        stored: list[dict[str, object]] = []
        for column, oid in zip(self.article.value_columns, types, strict=True):
            entry: dict[str, object] = {"name": column.name, "type": column.type, "oid": oid}
            if column.identity:
                entry["identity"] = column.identity
            if column.equality != "=":
                entry["equality"] = column.equality
            if column.collation is not None:
                entry["collation"] = column.collation
            stored.append(entry)
        return stored

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> DistributedArticle:
        """From a row of ``msrepl.msarticles``. Its columns are those that travel, and no others."""
        columns = tuple(
            Column(
                name=each["name"],
                type=each["type"],
                identity=each.get("identity", ""),
                equality=each.get("equality", "="),
                collation=each.get("collation"),
            )
            for each in row["columns"]
        )
        return cls(
            article_id=row["article_id"],
            article=Article(
                schema=row["source_schema"],
                table=row["source_object"],
                columns=columns,
                key=tuple(row["key"]),
                row_filter=row["filter_clause"],
            ),
            propagation=Propagation.from_json(row["propagation"]),
            procedures=dict(row["procedures"]),
            types=tuple(each.get("oid", 0) for each in row["columns"]),
            left_out=tuple(row["left_out"]),
            generated=tuple(row["generated"]),
        )


def default_procedures(schema: str, table: str, *, apart: bool = False) -> dict[str, str]:
    """The names of a table's default procedures by operation; see `names.propagation_procedure`."""
    return {
        operation: names.propagation_procedure(operation, schema, table, apart=apart)
        for operation in OPERATIONS
    }


# -- commands, readable ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandText:
    """A command, read."""

    text: str
    """``{CALL sp_msupd_x (,,,2,,'text',43659,0x0800)}``, or the statement as it is."""
    changed: tuple[str, ...] | None = None
    """The columns whose bit is set; None where there is no bitmask."""


def read_command(
    distributed: DistributedArticle | None, command_type: int, command: str, *, verb: str = "CALL"
) -> CommandText:
    """A command as `sp_browsereplcmds` shows it.

    Args:
        distributed: None if the article is not known any more.
        verb: ``VCALL`` for what came from an updatable subscription.
    """
    operation = _OPERATION.get(command_type)
    if operation is None or distributed is None:
        return CommandText(text=command)
    form = distributed.propagation.method(operation).format
    values = record_values(command.encode())
    try:
        requested = parameters(distributed.article, operation, form)
    except ValueError:
        requested = ()
    if len(requested) != len(values):  # the article has changed since
        return CommandText(text=command)
    changed: tuple[int, ...] | None = None
    if requested[-1].image == "bitmap" and values[-1] is not None:
        changed = tuple(changed_columns(bytes.fromhex(values[-1][2:].decode())))
    sparse = form is Format.SCALL and changed is not None
    shown = [
        ""
        if sparse and parameter.image == "new" and place not in (changed or ())
        else _shown(parameter, value)
        for place, (parameter, value) in enumerate(zip(requested, values, strict=True))
    ]
    columns = distributed.article.value_columns
    return CommandText(
        text=f"{{{verb} {distributed.procedure(operation)} ({','.join(shown)})}}",
        changed=None if changed is None else tuple(columns[n].name for n in changed),
    )


def _shown(parameter: CallParameter, value: bytes | None) -> str:
    if value is None:
        return "NULL"
    text = value.decode()
    if parameter.image == "bitmap":
        return f"0x{text[2:]}"
    if _UNQUOTED.match(parameter.type):
        return text
    return "'" + text.replace("'", "''") + "'"


def command_words(article: DistributedArticle | None, kind: int, command: str) -> str:
    """A command in a few words: what is done to which row."""
    operation = _OPERATION.get(kind, "")
    if article is None or not operation:
        return command
    form = article.propagation.method(operation).format
    if form in (Format.SQL, Format.NONE):
        return command
    requested = parameters(article.article, operation, form)
    values = dict(
        zip((each.name for each in requested), record_values(command.encode()), strict=True)
    )
    shown = []
    for place, name in enumerate(article.article.key, 1):
        at = [column.name for column in article.article.value_columns].index(name) + 1
        value = next(
            values[each] for each in (f"pkc{place}", f"old_c{at}", f"c{at}") if each in values
        )
        shown.append(f"{name}={'null' if value is None else value.decode()}")
    return f"{_VERBS[operation]} {article.article.name} {', '.join(shown)}"
