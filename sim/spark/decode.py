"""Commands as they were distributed → what each does to which row; built-in functions only.

A command is the text of a row in which every value is quoted (`twopc.propagation.record_text`), so that
quotes alone tell where a value ends. What the values are depends on the format
(`twopc.propagation.parameters`) and on the shape that its article had at that sequence number.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from twopc.proc_execution import BESIDE, CALL_TYPE, DEFINITION_TYPE
from twopc.propagation import CommandType

#: A comma and the quoted value that may follow it. Possessive: the plain form overflows the JVM's stack.
_FIELD = r',(?:"(?:[^"]++|"")*+")?'
#: What an operation's calls and statements are stored as.
_TYPES = {
    "ins": (CommandType.INSERT, CommandType.SQL_INSERT),
    "upd": (CommandType.UPDATE, CommandType.SQL_UPDATE),
    "del": (CommandType.DELETE, CommandType.SQL_DELETE),
}
_COLUMNS = (
    "seqno",
    "command_id",
    "article_id",
    "shape",
    "operation",
    "originator_id",
    "key",
    "new_key",
    "values",
    "old_values",
    "changed",
    "old_version",
    "new_version",
    "problem",
    "beside",
)


def decoded(commands: DataFrame, articles: DataFrame) -> DataFrame:
    """What each command does to which row.

    Args:
        commands: of `shapes.COMMANDS`. What is posted for every Subscriber (article 0) is left out, and so are
            definitions of routines. Rows beside a call are under their table's number.
        articles: of `shapes.ARTICLES`, all shapes.

    Returns:
        `shapes.DECODED`. A command that cannot be read has a `problem` and no values.
    """
    rows = commands.where((F.col("article_id") != 0) & (F.col("type") != DEFINITION_TYPE))
    joined = (
        rows.withColumn("beside", F.col("article_id") >= BESIDE)
        .withColumn("article_id", F.col("article_id") % BESIDE)
        .join(F.broadcast(_layouts(articles)), on=_applies(), how="left")
    )
    split = _once(joined, record_fields(F.col("command")).alias("split"))
    problem = (
        F.when(F.col("type") == CALL_TYPE, "call")
        .when(F.col("of_article").isNull(), "article")
        .when(F.col("expected").isNull(), F.when(F.col("is_sql"), "sql").otherwise("shape"))
        .when(F.size("split") != F.col("expected"), "shape")
        .otherwise("")
    )
    text = _once(
        split,
        problem.alias("problem"),
        F.when(F.size("split") == F.col("expected"), F.col("split")).alias("fields"),
    )
    images = _once(
        text,
        F.slice("fields", F.col("new_at"), F.col("width")).alias("values"),
        F.slice("fields", F.col("old_at"), F.col("width")).alias("old_values"),
        _key().alias("key"),
        _changed().alias("changed"),
    )
    return (
        images.withColumn("new_key", _new_key())
        .withColumn("old_version", F.get("old_values", F.col("version")))
        .withColumn("new_version", F.get("values", F.col("version")))
        .select(*_COLUMNS)
    )


def _once(frame: DataFrame, *columns: Column) -> DataFrame:
    """Add columns that are computed once, whatever refers to them.

    Spark would put the expression in the place of each reference, and what filters refer to would be computed
    for them once more; nothing is moved past a generator.
    """
    return frame.select("*", F.inline(F.array(F.struct(*columns))))


def record_fields(text: Column) -> Column:
    """The values in a record's text: ``twopc.propagation.record_values`` as an expression."""
    inner = F.concat(F.lit(","), F.substr(text, F.lit(2), F.length(text) - 2))
    result = F.regexp_extract_all(inner, F.lit(_FIELD), F.lit(0))
    return F.transform(result, _unquoted)


def _unquoted(field: Column) -> Column:
    inside = F.substr(field, F.lit(3), F.length(field) - 3)
    inside = F.replace(inside, F.lit('""'), F.lit('"'))
    return F.when(F.length(field) > 1, F.replace(inside, F.lit("\\\\"), F.lit("\\")))


def mask_bits(mask: Column, count: Column) -> Column:
    """Of a bitmask's text (``\\x06``), whether each of the first columns changed."""

    def bit(place: Column) -> Column:
        byte = F.substr(mask, F.lit(3) + 2 * F.shiftright(place, 3), F.lit(2))
        return F.getbit(F.conv(byte, 16, 10).cast("int"), place.bitwiseAND(7)) == 1

    return F.transform(_places(count), bit)


def _places(count: Column) -> Column:
    """0 … count - 1; of no columns, none."""
    return F.when(count > 0, F.sequence(F.lit(0), count - 1)).otherwise(
        F.array().cast("array<int>")
    )


def _layouts(articles: DataFrame) -> DataFrame:
    """Per shape and type of command where in its values what is; as small as a catalog.

    `new_at`, `old_at`, `key_at` count from 1 and are null where a command has no such image; `masked`: the last
    value is the bitmask.
    """
    by_shape = Window.partitionBy("article_id").orderBy("shape")
    periods = articles.withColumn("next_seqno", F.lead("first_seqno").over(by_shape))
    kinds = periods.select(
        F.col("article_id").alias("of_article"),
        "shape",
        "first_seqno",
        "next_seqno",
        F.size("columns").alias("width"),
        F.size("key").alias("keys"),
        F.col("key").alias("key_places"),
        "version",
        F.coalesce("large", F.array().cast("array<int>")).alias("large"),
        F.explode(F.array([_kind(each) for each in _TYPES])).alias("kind"),
    )
    calls = kinds.select("*", "kind.*", F.explode("kind.types").alias("of_type"))
    width, keys, form = F.col("width"), F.col("keys"), F.col("form")
    is_call = F.col("of_type") < CommandType.SQL_INSERT
    upd, dele = F.col("operation") == "upd", F.col("operation") == "del"
    in_values = F.forall("key_places", lambda place: (place >= 0) & (place < width))
    expected = (
        F.when(~is_call | ~in_values, None)
        .when((form == "CALL") & dele, keys)
        .when((form == "CALL") & upd, width + keys)
        .when((form == "CALL") | ((form == "XCALL") & dele), width)
        .when(form == "XCALL", 2 * width)
        .when(form.isin("SCALL", "MCALL"), width + keys + 1)
    )
    return calls.select(
        "of_article", "of_type", "shape", "first_seqno", "next_seqno", "operation", "width", "keys",
        "key_places", "version", "large",
        expected.alias("expected"),
        (~is_call).alias("is_sql"),
        F.when(~dele, F.when(form == "XCALL", width + 1).otherwise(1)).alias("new_at"),
        F.when(form == "XCALL", 1).alias("old_at"),
        F.when((form != "XCALL") & dele, 1).when((form != "XCALL") & upd, width + 1).alias("key_at"),
        (upd & form.isin("SCALL", "MCALL")).alias("masked"),
    )  # fmt: skip


def _kind(operation: str) -> Column:
    """An operation with its format and the types of its commands."""
    return F.struct(
        F.lit(operation).alias("operation"),
        F.upper(F.substring_index(operation, " ", 1)).alias("form"),
        F.array([F.lit(int(each)) for each in _TYPES[operation]]).alias("types"),
    )


def _applies() -> Column:
    return (
        (F.col("article_id") == F.col("of_article"))
        & (F.col("type") == F.col("of_type"))
        & (F.col("seqno") > F.col("first_seqno"))
        & (F.col("next_seqno").isNull() | (F.col("seqno") <= F.col("next_seqno")))
    )


def _key() -> Column:
    """As it is said, or out of the first image."""
    picked = F.transform("key_places", lambda place: F.get("fields", place))
    text = F.slice("fields", F.col("key_at"), F.col("keys"))
    return F.when(F.col("fields").isNull(), None).otherwise(F.coalesce(text, picked))


def _changed() -> Column:
    """Per column whether an update sets it. What XCALL does not tell of a large column may have changed."""
    width, fields = F.col("width"), F.col("fields")

    def differs(place: Column) -> Column:
        same = F.get(fields, place).eqNullSafe(F.get(fields, place + width))
        return ~same | F.array_contains("large", place)

    return F.when(
        fields.isNotNull() & (F.col("operation") == "upd"),
        F.when(F.col("masked"), mask_bits(F.element_at(fields, -1), width))
        .when(F.col("old_at").isNotNull(), F.transform(_places(width), differs))
        .otherwise(F.array_repeat(F.lit(True), width)),
    )


def _new_key() -> Column:
    """The key after the change: an update that does not set a key column leaves it as it was."""

    def after(place: Column, at: Column) -> Column:
        return F.when(F.get("changed", place), F.get("values", place)).otherwise(F.get("key", at))

    return F.when(F.col("operation") == "ins", F.col("key")).when(
        (F.col("operation") == "upd") & F.col("key").isNotNull(),
        F.transform("key_places", after),
    )
