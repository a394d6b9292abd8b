"""Articles for golden tests, written by hand; each has properties that the others do not have."""

from __future__ import annotations

from twopc.articles import (
    Article,
    Check,
    Column,
    ForeignKey,
    Table,
    UniqueKey,
    UserTrigger,
    UserType,
)
from twopc.names import VERSION_COLUMN

VERSION = Column(name=VERSION_COLUMN, type="uuid", not_null=True, default="gen_random_uuid()")


def key(name: str, *columns: str) -> UniqueKey:
    """Return a primary key."""
    definition = f"PRIMARY KEY ({', '.join(columns)})"
    return UniqueKey(name=name, columns=columns, primary=True, constraint=definition)


#: One key and nothing else: the shortest text.
ACCOUNT = Article(
    schema="public",
    table="account",
    columns=(
        Column(name="id", type="integer", not_null=True),
        Column(name="owner", type="text"),
        Column(name="balance", type="numeric(12,2)", not_null=True, default="0"),
        VERSION,
    ),
    key=("id",),
    uniques=(key("account_pkey", "id"),),
)

#: A composite key, a second unique key, a foreign key with an action, a check, and a schema.
LINE = Article(
    schema="sales",
    table="line",
    columns=(
        Column(name="order", type="bigint", not_null=True),
        Column(name="place", type="smallint", not_null=True),
        Column(name="code", type="public.citext", equality="operator(public.=)", comparable=False),
        Column(name="data", type="json", comparable=False),
        VERSION,
    ),
    key=("order", "place"),
    uniques=(
        key("line_pkey", "order", "place"),
        UniqueKey(name="line_code_key", columns=("code",), constraint="UNIQUE (code) DEFERRABLE"),
    ),
    references=(
        ForeignKey(
            name="line_order_fkey",
            schema="sales",
            table="line",
            columns=("order",),
            target_schema="sales",
            target_table="order",
            target_columns=("id",),
            on_delete="c",
            on_update="a",
            definition='FOREIGN KEY ("order") REFERENCES sales."order"(id) ON DELETE CASCADE',
            deferrable=True,
        ),
    ),
    referenced_by=(
        ForeignKey(
            name="part_line_fkey",
            schema="sales",
            table="part",
            columns=("order", "place"),
            target_schema="sales",
            target_table="line",
            target_columns=("order", "place"),
            on_delete="n",
            on_update="c",
            definition='FOREIGN KEY ("order", place) REFERENCES sales.line("order", place)'
            " ON UPDATE CASCADE ON DELETE SET NULL",
            deferrable=True,
        ),
    ),
    checks=(
        Check(name="positive", definition="CHECK ((place > 0))", columns=("place",), portable=True),
    ),
)

#: Values made by the Publisher, generated columns, a user's type, rows that are written back.
THING = Article(
    schema="public",
    table="thing",
    columns=(
        Column(name="id", type="bigint", not_null=True, identity="a"),
        Column(
            name="nr",
            type="integer",
            not_null=True,
            default="nextval('public.nr'::regclass)",
            default_at_publisher=True,
        ),
        Column(name="mood", type="public.mood", default="'good'::public.mood"),
        Column(name="name", type="text", collation='pg_catalog."C"'),
        Column(
            name="twice", type="integer", generated="s", default="(nr * 2)", generated_from=("nr",)
        ),
        Column(
            name="loud", type="text", generated="v", default="upper(name)", generated_from=("name",)
        ),
        VERSION,
    ),
    key=("id",),
    uniques=(key("thing_pkey", "id"),),
    writes_back=True,
    types=(
        UserType(
            schema="public",
            name="public.mood",
            definition="create type public.mood as enum ('good', 'bad')",
            extension=None,
            columns=("mood",),
        ),
    ),
)

#: Names with a meaning in SQL, format strings, psycopg and our own text.
ODD = Article(
    schema='the "odd" one',
    table="t%s{}\\'",
    columns=(
        Column(name="t", type="integer", not_null=True, identity="d"),
        Column(name="sent", type="text"),
        Column(name="100% {x} %(y)s", type="text"),
        Column(name='it\'s "so"', type="text"),
        Column(name="naïve\\日本", type="text", default="'it''s {} 100%'::text"),
        VERSION,
    ),
    key=("t",),
    uniques=(key('the "key"', "t"),),
)

#: Part of a table: some columns, some rows.
CUSTOMER = Article(
    schema="public",
    table="customer",
    columns=(
        Column(name="id", type="integer", not_null=True),
        Column(name="name", type="text", not_null=True),
        VERSION,
    ),
    key=("id",),
    row_filter="((region = 'west'::text) AND sales.good(customer.id))",
    uniques=(key("customer_pkey", "id"),),
)

ARTICLES = {
    "account": ACCOUNT,
    "composite_key": LINE,
    "generated_values": THING,
    "hostile_names": ODD,
    "filters": CUSTOMER,
}
#: Articles whose texts are stored as a whole.
WHOLE = ("account", "composite_key", "hostile_names")

#: Expressions of the Publisher's values, as the catalogs would return them.
EXPRESSIONS = {
    "id": "nextval('public.thing_id_seq'::regclass)",
    "nr": "nextval('public.nr'::regclass)",
    "t": "nextval('public.t_seq'::regclass)",
}


def table_of(article: Article, *triggers: UserTrigger) -> Table:
    """Return the table of an article at the Publisher or the Subscriber."""
    return Table(
        schema=article.schema,
        name=article.table,
        columns=article.columns,
        key=article.key,
        uniques=article.uniques,
        triggers=triggers,
        references=article.references,
        referenced_by=article.referenced_by,
    )
