"""SQL text of every object that propagation creates for an article at a Subscriber.

Pure: from an `Article` to SQL. `twopc.subscriber.propagation.install` executes the SQL.

The default procedures are those of seed 000, in PostgreSQL's language, and lie in the schema of the table that
they change, where users look for them. They are functions without a result, because ``SELECT`` must be able to
call one for every row of a block. They belong to the table's owner, who may replace them, and run with the
privileges of the table's role.

An update finds its row by the original key, whatever the format; for XCALL that is the key in the old image.
(Which columns the original's procedures for XCALL compare is not documented. They cannot compare every column,
since large values come as NULL.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from psycopg import sql

from twopc import names
from twopc.articles import Article
from twopc.propagation import OPERATIONS, Format, Propagation
from twopc.sql import fragments as f
from twopc.sql.render import compose, render
from twopc.sql.table_role import create_text, runs_as
from twopc.subscriber.propagation.bodies import Bodies, ValueSource
from twopc.subscriber.propagation.calls import COMMAND, Calls, SubscriberSide, own_object

_render = partial(render, "twopc.subscriber")

#: SQLSTATE of error 20598: the row that a command changes does not exist at the Subscriber.
ROW_NOT_FOUND = "P0002"
#: PostgreSQL's limit on attributes of a row type.
VALUES_MAX = 1600
_OPERATION_OF = {1: "ins", 2: "upd", 3: "del"}


def apply_function(article_id: int, kind: int) -> str:
    """Return the name ``apply_<article>_<operation>``, in schema msrepl, for a command type (1–3, 11–13)."""
    return f"apply_{article_id}_{_OPERATION_OF[kind % 10]}"


def set_function(article_id: int, kind: int) -> str:
    """Return the name ``set_<article>_<operation>``, in schema msrepl, for a command type (1–3)."""
    return f"set_{article_id}_{_OPERATION_OF[kind % 10]}"


class PropagationTexts(Calls):
    """Renders the SQL text of every object of one article; see `Calls`."""

    def procedure(self, operation: str) -> str:
        """Return the text of the default procedure for an operation."""
        bodies = self.bodies(operation)

        source = ValueSource(lambda parameter: self.argument(operation, parameter))
        holes: dict[str, sql.Composable] = {
            "procedure": sql.Identifier(self.article.schema, self.default_name(operation)),
            "parameters": self.parameter_list(operation),
            "signature": f.COMMA.join([f.raw(kind) for _, kind in self.arguments(operation)]),
            "computed": bodies.compute(source),
            "owner": sql.Identifier(self.place.table_owner),
            "caller": sql.Identifier(self.role),
            "comment": sql.Literal(
                f"Brings {COMMAND[operation]} of {self.article.name} from the Publisher "
                f"({self.propagation.method(operation).format})"
            ),
        }
        if operation == "ins":
            return _render(
                "msins",
                table=bodies.table,
                columns=bodies.insert_columns(),
                overriding=bodies.overriding(),
                values=bodies.insert_values(source),
                **holes,
            )
        holes |= {
            "guard": bodies.guard(source),
            "command": sql.Literal(COMMAND[operation]),
            "article": sql.Literal(self.article.name),
            "key_json": bodies.key_json(source),
        }
        if bodies.has_bitmap:
            return _render(
                "msupd_bitmap",
                bytes=bodies.bytes(source),
                key_changed=bodies.key_changed(source),
                with_key=bodies.update(source, key=True),
                without_key=bodies.update(source, key=False),
                **holes,
            )
        statement = bodies.update(source, key=True) if operation == "upd" else bodies.delete(source)
        return _render("msreplace", statement=statement, **holes)

    def apply(self, operation: str) -> str:
        """Return the text of ``msrepl.apply_<article>_<operation>``."""
        function = own_object(f"apply_{self.article_id}_{operation}")
        article, comment = (
            sql.Literal(self.article.name),
            sql.Literal(f"Applies one command for {COMMAND[operation]} in {self.article.name}"),
        )
        if not self.is_called(operation):
            return _render(
                "apply_statement",
                function=function,
                operation=sql.Literal(COMMAND[operation]),
                article=article,
                runs_as=runs_as(self.role),
                path_stays=compose("twopc.subscriber", "path_stays"),
                owner=sql.Identifier(self.role),
                agent=self.agent,
                comment=comment,
            )
        return _render(
            "apply_call",
            function=function,
            call_type=self.call_type(operation),
            article=article,
            procedure_text=sql.Literal(self.called_name(operation)),
            invocation=self.invocation(operation),
            runs_as=runs_as(self.role),
            path_stays=compose("twopc.subscriber", "path_stays"),
            owner=sql.Identifier(self.role),
            agent=self.agent,
            comment=comment,
        )

    def set(self, operation: str) -> str:
        """Return the text of ``msrepl.set_<article>_<operation>``."""
        bodies = self.bodies(operation)
        holes: dict[str, sql.Composable] = {
            "function": own_object(f"set_{self.article_id}_{operation}"),
            "owner": self.owner,
            "agent": self.agent,
        }
        statement = self._set_statement(bodies)
        if statement is None or operation in self.place.routines:
            comment = f"Commands for {COMMAND[operation]} in {self.article.name} go one by one"
            return _render("set_never", comment=sql.Literal(comment), **holes)
        comment = f"Applies a run of commands for {COMMAND[operation]} in {self.article.name}"
        holes |= {
            "runs_as": runs_as(self.role),
            "path_stays": compose("twopc.subscriber", "path_stays"),
            "owner": sql.Identifier(self.role),
            "article_id": sql.Literal(self.article_id),
            "call_type": self.call_type(operation),
            "statement": statement,
            "computed": bodies.compute_set(_OF_SET),
            "comment": sql.Literal(comment),
        }
        if operation != "upd":
            return render(
                "twopc.subscriber", "set_calls", operation=sql.Literal(operation), **holes
            )
        return _render(
            "set_updates",
            table_text=sql.Literal(bodies.table.as_string(None)),
            key=f.COMMA.join(bodies.original_key(_OF_SET)),
            same=f.COMMA.join(bodies.same_update(_OF_SET)),
            key_stays=bodies.key_stays(_OF_SET),
            **holes,
        )

    def _set_statement(self, bodies: Bodies) -> sql.Composable | None:
        """Return one statement for a set of calls; None if no single statement does the work of the procedure."""
        calls = sql.SQL("unnest(rows) as c")
        match bodies.operation:
            case "ins":
                return sql.SQL(
                    "insert into {} as t ({}){}\n        select {}\n        from {}"
                ).format(
                    bodies.table,
                    bodies.insert_columns(),
                    bodies.overriding(),
                    bodies.insert_values(_OF_SET),
                    calls,
                )
            case "del":
                return bodies.delete(_OF_SET, sql.SQL("\n        using {}").format(calls))
        keys_only = len(self.article.value_columns) == len(self.article.key)
        if bodies.always or keys_only:
            return None
        update = bodies.update(_OF_SET, key=False, tail=sql.SQL("\n        from due as c"))
        return sql.SQL("{} and c.place = turn and {}").format(update, bodies.key_stays(_OF_SET))

    def net(self) -> str | None:
        """Return the text of ``msrepl.net_<article>``, which applies updates that are in each other's way; None
        if updates are not calls.
        """
        if not self.is_called("upd"):
            return None
        bodies, held = self.bodies("upd"), self.place.held
        function, comment = (
            own_object(f"net_{self.article_id}"),
            sql.Literal(
                f"Makes updates of {self.article.name} at once that are in each other's way"
            ),
        )
        if "upd" in self.place.routines:
            return _render(
                "set_never",
                function=function,
                owner=self.owner,
                agent=self.agent,
                comment=comment,
            )
        travelling = {column.name: column for column in self.article.value_columns}
        columns = [c.name for c in (held or self.article).columns if not c.generated]
        return _render(
            "net_updates",
            function=function,
            article_id=sql.Literal(self.article_id),
            table=bodies.table,
            table_text=sql.Literal(bodies.table.as_string(None)),
            call_type=self.call_type("upd"),
            match=bodies.match(bodies.original_key(_OF_SET)),
            columns=f.identifiers(columns),
            values=f.COMMA.join(
                [
                    bodies.updated(travelling[name], _OF_PAIR, _held_in_pair(name))
                    if name in travelling
                    else _held_in_pair(name)
                    for name in columns
                ]
            ),
            computed=bodies.compute_set(_OF_SET),
            runs_as=runs_as(self.role),
            path_stays=compose("twopc.subscriber", "path_stays"),
            owner=sql.Identifier(self.role),
            agent=self.agent,
            comment=comment,
        )

    def registration(self, operation: str) -> str:
        """Return the statement that registers which procedure is called, and which objects to drop."""
        method, called = self.propagation.method(operation), self.is_called(operation)
        default = called and operation not in self.place.routines
        return _render(
            "register_procedure",
            article_id=sql.Literal(self.article_id),
            operation=sql.Literal(operation),
            schema=sql.Literal(self.article.schema),
            table=sql.Literal(self.article.table),
            format=sql.Literal(str(method.format)),
            shape=sql.Literal(self.article.shape),
            procedure=sql.Literal(self.called_name(operation) if called else None),
            signature=sql.Literal(self.signature(operation) if default else None),
            is_default=sql.Literal(default),
            agent=sql.Literal(self.place.agent),
        )

    def grants(self) -> list[str]:
        """Return the statements that grant the table's role its rights on the table and on the routines it calls."""
        role = sql.Identifier(self.role)
        routines = self.place.routines.values()
        return [
            create_text(
                self.place.owner,
                self.article.schema,
                self.article.table,
                "select, insert, update, delete",
            ),
            _render(
                "apply_rights",
                role=role,
                calls=sql.Identifier(names.calls_role(self.place.owner)),
                agent_text=sql.Literal(self.place.agent),
            ),
            *(
                sql.SQL("grant usage on schema {} to {}")
                .format(sql.Identifier(schema), role)
                .as_string(None)
                for schema in dict.fromkeys(routine.schema for routine in routines)
            ),
            *(
                sql.SQL("grant execute on routine {} to {}")
                .format(f.raw(routine.signature), role)
                .as_string(None)
                for routine in routines
            ),
        ]

    def all(self) -> list[str]:
        """Return the texts of all objects except the row types, in the order of creation."""
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


#: Value sources for a set of calls, and for pairs of a held row and a call.
_OF_SET = ValueSource(
    lambda parameter: f.raw(f"c.{parameter.name}"),
    lambda place: f.raw(f"get_byte(c.bitmap, {place})"),
)
_OF_PAIR = ValueSource(
    lambda parameter: f.raw(f"(c).{parameter.name}"),
    lambda place: f.raw(f"get_byte((c).bitmap, {place})"),
)


def _held_in_pair(name: str) -> sql.Composable:
    return sql.SQL("(t).{}").format(sql.Identifier(name))


def article_texts(
    article: Article,
    article_id: int,
    propagation: Propagation,
    place: SubscriberSide,
    procedures: Mapping[str, str] | None = None,
) -> list[str]:
    """Return the texts of all objects of one article at a Subscriber, row types included."""
    texts = PropagationTexts(article, article_id, propagation, place, procedures)
    return [*texts.types(), *(texts.image_type(name) for name in texts.images()), *texts.all()]


def drop_texts(article_id: int, signatures: Sequence[str]) -> list[str]:
    """Return statements that drop an article's objects, whatever they were generated from, except its image types.

    Args:
        signatures: of the article's default procedures.
    """
    functions = [
        (f"{what}_{article_id}_{operation}", argument)
        for what, argument in (("apply", "text"), ("set", "text[]"))
        for operation in OPERATIONS
    ]
    types = [f"call_{article_id}_{operation}" for operation in OPERATIONS]
    texts = [
        *(
            sql.SQL("drop function if exists {}({})").format(own_object(name), sql.SQL(argument))
            for name, argument in (*functions, (f"net_{article_id}", "text[]"))
        ),
        *(sql.SQL("drop function if exists {}").format(f.raw(each)) for each in signatures),
        *(sql.SQL("drop type if exists {}").format(own_object(name)) for name in types),
        sql.SQL("delete from msrepl.msreplication_procedures where article_id = {}").format(
            sql.Literal(article_id)
        ),
    ]
    return [text.as_string(None) for text in texts]
