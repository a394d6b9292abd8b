"""Calls for an article: names, arguments and row types.

Pure. If a call has more values than PostgreSQL accepts as arguments, each image of the row is one argument of a
row type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from psycopg import sql

from twopc import names
from twopc.articles import Article, Table
from twopc.propagation import ARGUMENTS_MAX, OPERATIONS, CallParameter, Format, Propagation
from twopc.sql import fragments as f
from twopc.sql.render import render
from twopc.subscriber.propagation.bodies import Bodies
from twopc.subscriber.propagation.custom import CustomRoutine

COMMAND = {"ins": "INSERT", "upd": "UPDATE", "del": "DELETE"}
_ROW_ARGUMENT = {"new": "new_row", "old": "old_row", "key": "original_key"}


def own_object(name: str) -> sql.Identifier:
    """Return the identifier of an object in schema msrepl."""
    return sql.Identifier(names.SCHEMA, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriberSide:
    """The Subscriber's side of an article: its roles, its table and its custom procedures."""

    owner: str
    """Role that owns the objects in schema msrepl."""
    agent: str
    """Role of distribution agents."""
    table_owner: str
    held: Table | None = None
    """The Subscriber's table; None if the table was made from the article."""
    types: Mapping[str, str] = field(default_factory=dict)
    """For each column of a domain, the domain's base type."""
    routines: Mapping[str, CustomRoutine] = field(default_factory=dict)
    """Custom procedures, by operation."""


class Calls:
    """Names, arguments and row types of one article's calls.

    Args:
        procedures: names of the default procedures by operation, if they differ from
            `names.propagation_procedure`.
    """

    def __init__(
        self,
        article: Article,
        article_id: int,
        propagation: Propagation,
        place: SubscriberSide,
        procedures: Mapping[str, str] | None = None,
    ) -> None:
        self.article = article
        self.article_id = article_id
        self.propagation = propagation
        self.place = place
        self.procedures = procedures or {}
        self.owner = sql.Identifier(place.owner)
        self.agent = sql.Identifier(place.agent)
        self.role = names.table_role(place.owner, article.schema, article.table)
        """Role with whose privileges the table is changed."""
        self._bodies: dict[str, Bodies] = {}

    # -- names and parameters ---------------------------------------------------------------------

    def default_name(self, operation: str) -> str:
        """Return the name of the default procedure, by default ``sp_ms<operation>_<schema><table>``."""
        article = self.article
        return self.procedures.get(operation) or names.propagation_procedure(
            operation, article.schema, article.table
        )

    def bodies(self, operation: str) -> Bodies:
        """Return the statements of an operation whose commands are calls."""
        if operation not in self._bodies:
            self._bodies[operation] = Bodies(
                self.article,
                operation,
                self.propagation.method(operation).format,
                held=self.place.held,
                types=self.place.types,
            )
        return self._bodies[operation]

    def is_called(self, operation: str) -> bool:
        """Whether commands of this operation are calls, neither statements nor suppressed."""
        return self.propagation.method(operation).format not in (Format.SQL, Format.NONE)

    def by_row(self, operation: str) -> bool:
        """Whether a call has more values than a procedure can have arguments, so that each image is one argument."""
        return len(self.bodies(operation).parameters) > ARGUMENTS_MAX

    def call_type(self, operation: str) -> sql.Identifier:
        """Return the identifier of the row type of a call's values."""
        return own_object(f"call_{self.article_id}_{operation}")

    def _image_type(self, image: str) -> sql.Identifier:
        return own_object(f"{'key' if image == 'key' else 'image'}_{self.article_id}")

    def arguments(self, operation: str) -> list[tuple[str, str]]:
        """Return name and SQL type of every argument of the operation's procedure."""
        bodies = self.bodies(operation)
        if not self.by_row(operation):
            return [(each.name, bodies.type_of(each)) for each in bodies.parameters]
        images = dict.fromkeys(each.image for each in bodies.parameters)
        return [
            ("bitmap", "bytea")
            if image == "bitmap"
            else (_ROW_ARGUMENT[image], self._image_type(image).as_string(None))
            for image in images
        ]

    def signature(self, operation: str) -> str:
        """Return ``schema.name(types)`` of the default procedure, as regprocedure accepts it."""
        name = sql.Identifier(self.article.schema, self.default_name(operation)).as_string(None)
        return f"{name}({', '.join(each for _, each in self.arguments(operation))})"

    def parameter_list(self, operation: str) -> sql.Composed:
        # SCALL omits unchanged columns, as the original's calls do
        default = ""
        if self.propagation.method(operation).format is Format.SCALL:
            default = " default null"
        arguments = self.arguments(operation)
        lines = len(arguments) > 4
        return sql.SQL("\n    " if lines else "") + sql.SQL(",\n    " if lines else ", ").join(
            [sql.SQL(f"{name} {kind}{default}") for name, kind in arguments]
        )

    def argument(self, operation: str, parameter: CallParameter) -> sql.Composable:
        """Return the expression by which the procedure refers to a value."""
        if not self.by_row(operation) or parameter.image == "bitmap":
            return f.raw(parameter.name)
        return f.raw(f"{_ROW_ARGUMENT[parameter.image]}.{parameter.name.removeprefix('old_')}")

    # -- objects ----------------------------------------------------------------------------------

    def types(self) -> list[str]:
        """Return statements that create the row types of the values of each call."""
        return [
            self.row_type(
                self.call_type(operation),
                [
                    (p.name, self.bodies(operation).type_of(p))
                    for p in self.bodies(operation).parameters
                ],
                f"Values of a command for {COMMAND[operation]} in {self.article.name}",
            )
            for operation in OPERATIONS
            if self.is_called(operation)
        ]

    def images(self) -> dict[str, list[tuple[str, str]]]:
        """Return the attributes of the image types, by name; empty if no procedure takes whole images."""
        if not any(self.by_row(each) for each in OPERATIONS if self.is_called(each)):
            return {}
        types = self.place.types
        return {
            f"{name}_{self.article_id}": [
                (f"{prefix}{n}", types.get(column.name, column.type))
                for n, column in enumerate(columns, 1)
            ]
            for name, prefix, columns in (
                ("image", "c", self.article.value_columns),
                ("key", "pkc", self.article.key_columns),
            )
        }

    def image_type(self, name: str) -> str:
        """Return the statement that creates one of `images`."""
        comment = f"A row of {self.article.name}, or its original key, as one argument"
        return self.row_type(own_object(name), self.images()[name], comment)

    def row_type(
        self, name: sql.Identifier, attributes: Sequence[tuple[str, str]], comment: str
    ) -> str:
        """Return the statement that creates a row type."""
        return render(
            "twopc.subscriber",
            "call_type",
            type=name,
            attributes=f.COMMA.join(
                [sql.SQL("{} {}").format(sql.Identifier(a), f.raw(kind)) for a, kind in attributes]
            ),
            owner=self.owner,
            agent=self.agent,
            comment=sql.Literal(comment),
        )

    def called_name(self, operation: str) -> str:
        """Return the quoted name of the procedure that is called."""
        routine = self.place.routines.get(operation)
        if routine is not None:
            return routine.name
        name = sql.Identifier(self.article.schema, self.default_name(operation))
        return name.as_string(None)

    def invocation(self, operation: str) -> sql.Composed:
        routine = self.place.routines.get(operation)
        call = sql.SQL("{}({})").format(f.raw(self.called_name(operation)), self._values(operation))
        if routine is None:
            # a PERFORM would be a query; an expression is evaluated at once
            return sql.SQL("done := {} is null").format(call)
        return sql.SQL("call {}" if routine.is_procedure else "perform {}").format(call)

    def _values(self, operation: str) -> sql.Composed:
        """Return the arguments of a call: every value, or whole images."""
        values = {p.name: f.raw(f"c.{p.name}") for p in self.bodies(operation).parameters}
        if not self.by_row(operation):
            return f.COMMA.join(list(values.values()))
        images: dict[str, list[sql.Composable]] = {}
        for parameter in self.bodies(operation).parameters:
            images.setdefault(parameter.image, []).append(values[parameter.name])
        return f.COMMA.join(
            [
                fields[0]
                if image == "bitmap"
                else sql.SQL("row({})::{}").format(f.COMMA.join(fields), self._image_type(image))
                for image, fields in images.items()
            ]
        )
