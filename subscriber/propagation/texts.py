"""Everything that propagation creates for an article at a Subscriber, as text.

Pure: from an `Article` to SQL. `subscriber.propagation.install` executes it.

The default procedures are those of seed 000, in PostgreSQL's language, and lie in the schema of the table that
they change, where users look for them. They are functions without a result, because ``SELECT`` must be able to
call one for every row of a block. They belong to the table's owner, who may replace them.

An update finds its row by the original key, whatever the format. (The original's procedures for XCALL compare
with the values before the change only where updates are queued; the others go by the key of the old image.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from psycopg import sql

from subscriber.propagation.bodies import Bodies
from subscriber.propagation.custom import Routine
from twopc import names
from twopc.articles import Article, Table
from twopc.propagation import (
    ARGUMENTS_MAX,
    OPERATIONS,
    Format,
    Parameter,
    Propagation,
)
from twopc.sql import fragments as f
from twopc.sql.render import render

#: SQLSTATE of 20598, the row that a command changes is not at the Subscriber.
ROW_NOT_FOUND = "P0002"
#: PostgreSQL's limit on attributes of a row type.
VALUES_MAX = 1600
_COMMAND = {"ins": "INSERT", "upd": "UPDATE", "del": "DELETE"}
_OPERATION_OF = {1: "ins", 2: "upd", 3: "del"}
_ROW_ARGUMENT = {"new": "new_row", "old": "old_row", "key": "original_key"}


def apply_function(article_id: int, kind: int) -> str:
    """``apply_<article>_<operation>`` in schema msrepl, for a type of command (1–3, 11–13)."""
    return f"apply_{article_id}_{_OPERATION_OF[kind % 10]}"


def set_function(article_id: int, kind: int) -> str:
    """``set_<article>_<operation>`` in schema msrepl, for a type of command (1–3)."""
    return f"set_{article_id}_{_OPERATION_OF[kind % 10]}"


def _ours(name: str) -> sql.Identifier:
    return sql.Identifier(names.SCHEMA, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The Subscriber's side: who owns what, and what its table is like."""

    owner: str
    """Owns what is in schema msrepl."""
    agent: str
    """The role of distribution agents."""
    table_owner: str
    held: Table | None = None
    """Its table; None: one that was made from the article."""
    types: Mapping[str, str] = field(default_factory=dict)
    """For columns of a domain, the type behind it."""
    routines: Mapping[str, Routine] = field(default_factory=dict)
    """The custom procedures, by operation."""


class PropagationTexts:
    """Renders every object of one article.

    Args:
        procedures: names of the default procedures by operation, where they are not
            `names.propagation_procedure`.
    """

    def __init__(
        self,
        article: Article,
        article_id: int,
        propagation: Propagation,
        place: Place,
        procedures: Mapping[str, str] | None = None,
    ) -> None:
        self.article = article
        self.article_id = article_id
        self.propagation = propagation
        self.place = place
        self.procedures = procedures or {}
        self.owner = sql.Identifier(place.owner)
        self.agent = sql.Identifier(place.agent)

    # -- names and parameters ---------------------------------------------------------------------

    def default_name(self, operation: str) -> str:
        """``sp_ms<operation>_<schema><table>``."""
        article = self.article
        return self.procedures.get(operation) or names.propagation_procedure(
            operation, article.schema, article.table
        )

    def bodies(self, operation: str) -> Bodies:
        """The statements of an operation that is called."""
        return Bodies(
            self.article,
            operation,
            self.propagation.method(operation).format,
            held=self.place.held,
            types=self.place.types,
        )

    def is_called(self, operation: str) -> bool:
        """Commands of this operation are calls, not statements and not nothing."""
        return self.propagation.method(operation).format not in (Format.SQL, Format.NONE)

    def by_row(self, operation: str) -> bool:
        """There are more values than arguments: each image is one argument."""
        return len(self.bodies(operation).parameters) > ARGUMENTS_MAX

    def call_type(self, operation: str) -> sql.Identifier:
        """The type of a call's values."""
        return _ours(f"call_{self.article_id}_{operation}")

    def _image_type(self, image: str) -> sql.Identifier:
        return _ours(f"{'key' if image == 'key' else 'image'}_{self.article_id}")

    def arguments(self, operation: str) -> list[tuple[str, str]]:
        """Name and SQL type of every argument of the operation's procedure."""
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
        """``schema.name(types)`` of the default procedure, as regprocedure takes it."""
        name = sql.Identifier(self.article.schema, self.default_name(operation)).as_string(None)
        return f"{name}({', '.join(each for _, each in self.arguments(operation))})"

    def _parameter(self, operation: str) -> sql.Composed:
        # SCALL leaves out what did not change, as the original's calls do
        default = ""
        if self.propagation.method(operation).format is Format.SCALL:
            default = " default null"
        return sql.SQL(",\n    " if len(self.arguments(operation)) > 8 else ", ").join(
            [
                sql.SQL("{} {}" + default).format(sql.Identifier(name), f.raw(kind))
                for name, kind in self.arguments(operation)
            ]
        )

    def _argument(self, operation: str, parameter: Parameter) -> sql.Composable:
        """Where the procedure finds a value."""
        if not self.by_row(operation) or parameter.image == "bitmap":
            return sql.Identifier(parameter.name)
        return sql.Identifier(_ROW_ARGUMENT[parameter.image], parameter.name.removeprefix("old_"))

    # -- objects ----------------------------------------------------------------------------------

    def types(self) -> list[str]:
        """Row types: the values of each call, and images for procedures that take them whole."""
        called = [operation for operation in OPERATIONS if self.is_called(operation)]
        texts = [
            self._type(
                self.call_type(operation),
                [
                    (p.name, self.bodies(operation).type_of(p))
                    for p in self.bodies(operation).parameters
                ],
                f"Values of a command for {_COMMAND[operation]} in {self.article.name}",
            )
            for operation in called
        ]
        if any(self.by_row(operation) for operation in called):
            types = self.place.types
            for image, columns, prefix in (
                ("new", self.article.value_columns, "c"),
                ("key", self.article.key_columns, "pkc"),
            ):
                texts.append(
                    self._type(
                        self._image_type(image),
                        [
                            (f"{prefix}{n}", types.get(column.name, column.type))
                            for n, column in enumerate(columns, 1)
                        ],
                        f"A row of {self.article.name} as one argument"
                        if image == "new"
                        else f"The original key of a row of {self.article.name} as one argument",
                    )
                )
        return texts

    def _type(
        self, name: sql.Identifier, attributes: Sequence[tuple[str, str]], comment: str
    ) -> str:
        return render(
            "subscriber",
            "call_type",
            type=name,
            attributes=f.COMMA.join(
                [sql.SQL("{} {}").format(sql.Identifier(a), f.raw(kind)) for a, kind in attributes]
            ),
            owner=self.owner,
            agent=self.agent,
            comment=sql.Literal(comment),
        )

    def procedure(self, operation: str) -> str:
        """The default procedure."""
        bodies = self.bodies(operation)

        def source(parameter: Parameter) -> sql.Composable:
            return self._argument(operation, parameter)

        holes: dict[str, sql.Composable] = {
            "procedure": sql.Identifier(self.article.schema, self.default_name(operation)),
            "parameters": self._parameter(operation),
            "signature": f.COMMA.join([f.raw(kind) for _, kind in self.arguments(operation)]),
            "computed": bodies.compute(source),
            "owner": sql.Identifier(self.place.table_owner),
            "agent": self.agent,
            "comment": sql.Literal(
                f"Brings {_COMMAND[operation]} of {self.article.name} from the Publisher "
                f"({self.propagation.method(operation).format})"
            ),
        }
        if operation == "ins":
            return render(
                "subscriber",
                "msins",
                table=bodies.table,
                columns=bodies.insert_columns(),
                overriding=bodies.overriding(),
                values=bodies.insert_values(source),
                **holes,
            )
        holes |= {
            "guard": bodies.guard(source),
            "command": sql.Literal(_COMMAND[operation]),
            "article": sql.Literal(self.article.name),
            "key_json": bodies.key_json(source),
        }
        if bodies.has_bitmap:
            return render(
                "subscriber",
                "msupd_bitmap",
                key_changed=bodies.key_changed(source),
                with_key=bodies.update(source, key=True),
                without_key=bodies.update(source, key=False),
                **holes,
            )
        statement = bodies.update(source, key=True) if operation == "upd" else bodies.delete(source)
        return render("subscriber", "msreplace", statement=statement, **holes)

    def apply(self, operation: str) -> str:
        """``msrepl.apply_<article>_<operation>``."""
        function = _ours(f"apply_{self.article_id}_{operation}")
        article, comment = (
            sql.Literal(self.article.name),
            sql.Literal(f"Applies one command for {_COMMAND[operation]} in {self.article.name}"),
        )
        if not self.is_called(operation):
            return render(
                "subscriber",
                "apply_statement",
                function=function,
                operation=sql.Literal(_COMMAND[operation]),
                article=article,
                owner=self.owner,
                agent=self.agent,
                comment=comment,
            )
        return render(
            "subscriber",
            "apply_call",
            function=function,
            call_type=self.call_type(operation),
            article=article,
            procedure_text=sql.Literal(self._called(operation)),
            invocation=self._invocation(operation),
            owner=self.owner,
            agent=self.agent,
            comment=comment,
        )

    def _called(self, operation: str) -> str:
        """The procedure's quoted name."""
        routine = self.place.routines.get(operation)
        if routine is not None:
            return routine.name
        name = sql.Identifier(self.article.schema, self.default_name(operation))
        return name.as_string(None)

    def _invocation(self, operation: str) -> sql.Composed:
        routine = self.place.routines.get(operation)
        call = sql.SQL("{}({})").format(f.raw(self._called(operation)), self._values(operation))
        if routine is None:
            # a PERFORM would be a query; an expression is evaluated at once
            return sql.SQL("done := {} is null").format(call)
        return sql.SQL("call {}" if routine.is_procedure else "perform {}").format(call)

    def _values(self, operation: str) -> sql.Composed:
        """What is passed: every value, or whole images."""
        values = {p.name: sql.Identifier("c", p.name) for p in self.bodies(operation).parameters}
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

    def set(self, operation: str) -> str:
        """``msrepl.set_<article>_<operation>``."""
        bodies = self.bodies(operation)
        holes: dict[str, sql.Composable] = {
            "function": _ours(f"set_{self.article_id}_{operation}"),
            "owner": self.owner,
            "agent": self.agent,
        }
        statement = self._set_statement(bodies)
        if statement is None or operation in self.place.routines:
            comment = f"Commands for {_COMMAND[operation]} in {self.article.name} go one by one"
            return render("subscriber", "set_never", comment=sql.Literal(comment), **holes)
        comment = f"Applies a run of commands for {_COMMAND[operation]} in {self.article.name}"
        return render(
            "subscriber",
            "set_calls",
            article_id=sql.Literal(self.article_id),
            operation=sql.Literal(operation),
            call_type=self.call_type(operation),
            statement=statement,
            computed=bodies.compute_set(_of_set),
            comment=sql.Literal(comment),
            **holes,
        )

    def _set_statement(self, bodies: Bodies) -> sql.Composable | None:
        """One statement for a set of calls; None where there is none that does what the procedure does."""
        calls = sql.SQL("unnest(rows) as c")
        match bodies.operation:
            case "ins":
                return sql.SQL(
                    "insert into {} as t ({}){}\n        select {}\n        from {}"
                ).format(
                    bodies.table,
                    bodies.insert_columns(),
                    bodies.overriding(),
                    bodies.insert_values(_of_set),
                    calls,
                )
            case "del":
                return bodies.delete(_of_set, sql.SQL("\n        using {}").format(calls))
        keys_only = len(self.article.value_columns) == len(self.article.key)
        if bodies.always or keys_only:
            return None
        # a key that changes may be another row's a call later: such calls keep their order
        unchanged: sql.Composable
        if bodies.has_bitmap:
            unchanged = sql.SQL("not ({})").format(bodies.key_changed(_of_set))
        else:
            unchanged = f.AND.join(
                [
                    sql.SQL("{}::text is not distinct from {}::text").format(new, old)
                    for new, old in zip(
                        bodies.new_key(_of_set), bodies.original_key(_of_set), strict=True
                    )
                ]
            )
        tail = sql.SQL("\n        from {}").format(calls)
        return sql.SQL("{} and {}").format(bodies.update(_of_set, key=False, tail=tail), unchanged)

    def net(self) -> str | None:
        """``msrepl.net_<article>``: updates that are in each other's way; None if there is none."""
        if not self.is_called("upd"):
            return None
        bodies, held = self.bodies("upd"), self.place.held
        function, comment = (
            _ours(f"net_{self.article_id}"),
            sql.Literal(
                f"Makes updates of {self.article.name} at once that are in each other's way"
            ),
        )
        if "upd" in self.place.routines:
            return render(
                "subscriber",
                "set_never",
                function=function,
                owner=self.owner,
                agent=self.agent,
                comment=comment,
            )
        travelling = {column.name: column for column in self.article.value_columns}
        columns = [c.name for c in (held or self.article).columns if not c.generated]
        return render(
            "subscriber",
            "net_updates",
            function=function,
            article_id=sql.Literal(self.article_id),
            table=bodies.table,
            table_text=sql.Literal(bodies.table.as_string(None)),
            call_type=self.call_type("upd"),
            match=bodies.match("t", bodies.original_key(_of_set)),
            columns=f.identifiers(columns),
            values=f.COMMA.join(
                [
                    bodies.updated(travelling[name], _of_pair, _held_in_pair(name))
                    if name in travelling
                    else _held_in_pair(name)
                    for name in columns
                ]
            ),
            computed=bodies.compute_set(_of_set),
            owner=self.owner,
            agent=self.agent,
            comment=comment,
        )

    def registration(self, operation: str) -> str:
        """The row that says what is called, and what to drop."""
        method, called = self.propagation.method(operation), self.is_called(operation)
        default = called and operation not in self.place.routines
        return render(
            "subscriber",
            "register_procedure",
            article_id=sql.Literal(self.article_id),
            operation=sql.Literal(operation),
            schema=sql.Literal(self.article.schema),
            table=sql.Literal(self.article.table),
            format=sql.Literal(str(method.format)),
            shape=sql.Literal(self.article.shape),
            procedure=sql.Literal(self._called(operation) if called else None),
            signature=sql.Literal(self.signature(operation) if default else None),
            is_default=sql.Literal(default),
        )

    def grants(self) -> list[str]:
        """What an agent needs besides: the table, and the schemas of what it calls."""
        schemas = dict.fromkeys(
            [self.article.schema, *(routine.schema for routine in self.place.routines.values())]
        )
        return [
            *(
                sql.SQL("grant usage on schema {} to {}")
                .format(sql.Identifier(schema), self.agent)
                .as_string(None)
                for schema in schemas
            ),
            sql.SQL("grant select, insert, update, delete on {} to {}")
            .format(f.table_of(self.article), self.agent)
            .as_string(None),
            *(
                sql.SQL("grant execute on routine {} to {}")
                .format(f.raw(routine.signature), self.agent)
                .as_string(None)
                for routine in self.place.routines.values()
            ),
        ]

    def all(self) -> list[str]:
        """Everything but the row types, in the order of creation."""
        called = [operation for operation in OPERATIONS if self.is_called(operation)]
        default = [operation for operation in called if operation not in self.place.routines]
        sent = [o for o in OPERATIONS if self.propagation.method(o).format is not Format.NONE]
        return [
            *self.grants(),
            *(self.procedure(operation) for operation in default),
            *(self.apply(operation) for operation in sent),
            *(self.set(operation) for operation in called),
            *(text for text in [self.net()] if text is not None),
            *(self.registration(operation) for operation in sent),
        ]


def _of_set(parameter: Parameter) -> sql.Composable:
    return sql.Identifier("c", parameter.name)


def _of_pair(parameter: Parameter) -> sql.Composable:
    return sql.SQL("(c).{}").format(sql.Identifier(parameter.name))


def _held_in_pair(name: str) -> sql.Composable:
    return sql.SQL("(t).{}").format(sql.Identifier(name))


def article_texts(
    article: Article,
    article_id: int,
    propagation: Propagation,
    place: Place,
    procedures: Mapping[str, str] | None = None,
) -> list[str]:
    """Everything of one article at a Subscriber."""
    texts = PropagationTexts(article, article_id, propagation, place, procedures)
    return [*texts.types(), *texts.all()]


def drop_texts(article_id: int, signatures: Sequence[str]) -> list[str]:
    """Drops what an article has, whatever it was generated from.

    Args:
        signatures: of its default procedures.
    """
    functions = [
        (f"{what}_{article_id}_{operation}", argument)
        for what, argument in (("apply", "text"), ("set", "text[]"))
        for operation in OPERATIONS
    ]
    types = [
        *(f"call_{article_id}_{operation}" for operation in OPERATIONS),
        f"image_{article_id}",
        f"key_{article_id}",
    ]
    texts = [
        *(
            sql.SQL("drop function if exists {}({})").format(_ours(name), sql.SQL(argument))
            for name, argument in (*functions, (f"net_{article_id}", "text[]"))
        ),
        *(sql.SQL("drop function if exists {}").format(f.raw(each)) for each in signatures),
        *(sql.SQL("drop type if exists {}").format(_ours(name)) for name in types),
        sql.SQL("delete from msrepl.msreplication_procedures where article_id = {}").format(
            sql.Literal(article_id)
        ),
    ]
    return [text.as_string(None) for text in texts]
