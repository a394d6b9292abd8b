"""Articles as distribution represents them, and the text of their commands.

Shared by the Publisher, which makes commands and browses them, and by a Subscriber's agent, which reports a command
that failed. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from twopc import names
from twopc.articles import Article, Column
from twopc.proc_execution import shown_value
from twopc.propagation import (
    OPERATION_OF,
    OPERATIONS,
    CallParameter,
    Format,
    Propagation,
    changed_columns,
    parameters,
    record_values,
)

_VERBS = {"ins": "insert", "upd": "update", "del": "delete"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedArticle:
    """An article with its number and the way in which its changes are propagated."""

    article_id: int
    article: Article
    propagation: Propagation = field(default_factory=Propagation)
    procedures: Mapping[str, str]
    """Name of the default procedure for each operation, without its schema, which is that of the destination table."""
    types: tuple[int, ...] = ()
    """Type OIDs of `Article.value_columns` at the Publisher; empty if unknown."""
    left_out: tuple[str, ...] = ()
    """Unpublished columns of the table that its log contains."""
    generated: tuple[str, ...] = ()
    """Generated columns of the table; the log may contain them, depending on their kind and the server version."""

    def procedure(self, operation: str) -> str:
        """Return the name of the procedure that a Subscriber calls: the custom one if set, else the default one."""
        return self.propagation.method(operation).procedure or self.procedures[operation]

    def as_columns(self) -> list[dict[str, object]]:
        """Return the value of ``msarticles.columns``: the columns whose values are sent."""
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
        """Return the article stored in a row of ``msrepl.msarticles``. It has only the columns whose values are
        sent.
        """
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
    """Return the names of a table's default procedures by operation; see `names.propagation_procedure`."""
    return {
        operation: names.propagation_procedure(operation, schema, table, apart=apart)
        for operation in OPERATIONS
    }


# -- readable commands ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandText:
    """A command in readable form."""

    text: str
    """``{CALL sp_msupd_x (,,,2,,'text',43659,0x0800)}``, or the statement itself."""
    changed: tuple[str, ...] | None = None
    """The columns whose bit is set in the bitmask; None if the command has no bitmask."""


def read_command(
    distributed: DistributedArticle | None, command_type: int, command: str, *, verb: str = "CALL"
) -> CommandText:
    """Return a command in the form that `sp_browsereplcmds` shows.

    Args:
        distributed: None if the article is no longer known.
        verb: ``VCALL`` for a command that came from an updatable subscription.
    """
    operation = OPERATION_OF.get(command_type)
    if operation is None or distributed is None:
        return CommandText(text=command)
    form = distributed.propagation.method(operation).format
    values = record_values(command.encode())
    try:
        requested = parameters(distributed.article, operation, form)
    except ValueError:
        requested = ()
    if len(requested) != len(values):  # the article has changed since the command was stored
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
    text = None if value is None else value.decode()
    if text is not None and parameter.image == "bitmap":
        return f"0x{text[2:]}"
    return shown_value(text, parameter.type)


def command_words(article: DistributedArticle | None, kind: int, command: str) -> str:
    """Return a short description of a command: the operation and the key of the row."""
    operation = OPERATION_OF.get(kind, "")
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
