"""The formats of commands, as functions from a change to a command: one per article and operation.

Each is made once for the columns of a relation as the log announces it. The text of a call is that of
`twopc.propagation.record_text`, made faster.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from operator import itemgetter, ne
from typing import LiteralString

from psycopg import sql

from publisher.pgoutput import UNCHANGED, Change, Relation
from twopc.articles import Column
from twopc.distributed import DistributedArticle
from twopc.errors import ArticleError
from twopc.names import VERSION_COLUMN
from twopc.propagation import OPERATIONS, TYPE_OF, Format, bitmask, record_text
from twopc.sql import fragments as f

#: article id, type, hashkey, command
Command = tuple[int, int, int, bytes]
Make = Callable[[Change], Command]
Values = Sequence[bytes | None]
_Pick = Callable[[Values], Values]

#: Statements are ten further than calls.
_STATEMENT = 10
#: So many different bitmasks are kept ready; a wide table has more than anybody wants to keep.
_TEMPLATES_MAX = 1024
STREAMS_MAX = 64

# Types whose equal values have equal texts: only then does a key's text tell its stream.
_CANONICAL = re.compile(
    r"(smallint|integer|bigint|oid|uuid|boolean|text|name|bytea|date|character(?: varying)?(?:\(\d+\))?"
    r"|timestamp(?:\(\d\))? with(?:out)? time zone|numeric\(\d+,-?\d+\))\Z"
)


def makers(relation: Relation, distributed: DistributedArticle) -> dict[str, Make]:
    """A function per operation that makes an article's command; none where the format is NONE."""
    formats = _Formats(relation, distributed)
    made: dict[str, Make] = {}
    for operation in OPERATIONS:
        form = distributed.propagation.method(operation).format
        if form is not Format.NONE:
            made[operation] = formats.maker(operation, form)
    return made


class _Formats:
    """What the formats of one article over one relation have in common."""

    def __init__(self, relation: Relation, distributed: DistributedArticle) -> None:
        self.article = distributed.article
        self.article_id = distributed.article_id
        self.table = f.table_of(self.article)
        self.large = distributed.propagation.large
        place = {column.name: at for at, column in enumerate(relation.columns)}
        self.width = len(place)
        self.values = [place[column.name] for column in self.article.value_columns]
        self.keys = [place[column.name] for column in self.article.key_columns]
        self.pick = _picker(self.values, self.width)
        self.key = _picker(self.keys, self.width)
        self.hashkey = _hashkeys(self.article.key_columns)
        self.version = place[VERSION_COLUMN]

    def maker(self, operation: str, form: Format) -> Make:
        """The function that makes this operation's commands in this format."""
        match operation, form:
            case "ins", Format.SQL:
                return self._insert_statement()
            case "upd", Format.SQL:
                return self._update_statement()
            case "del", Format.SQL:
                return self._delete_statement()
            case "ins", _:
                return self._insert()
            case "upd", Format.CALL:
                return self._update()
            case "upd", Format.SCALL:
                return self._update_changed()
            case "upd", Format.MCALL:
                return self._update_masked()
            case "upd", _:
                return self._update_images()
            case _, Format.XCALL:
                return self._delete_image()
        return self._delete()

    def _lacking(self, what: str) -> ArticleError:
        name = self.article.name
        return ArticleError(
            f"article {name}: the log lacks {what}, because the table or a partition of it has lost "
            "REPLICA IDENTITY FULL: `twopc regenerate` it, and reinitialise its subscriptions"
        )

    def _old_row(self, change: Change) -> Values | None:
        """The old row as a whole; None if the log does not have it.

        A partition may have another replica identity than its parent, by which the log calls its rows:
        the row version, which is never NULL, tells.
        """
        old = change.old
        if old is None or change.old_is_key or old[self.version] is None:
            return None
        return old

    def _old_row_needed(self, change: Change) -> Values:
        old = self._old_row(change)
        if old is None:
            raise self._lacking("the old row")
        return old

    def _differences(self, change: Change) -> tuple[bool, ...]:
        """Which values changed: without the old row, all that the log has."""
        assert change.new is not None
        old = self._old_row(change)
        if old is None:
            return tuple([value is not UNCHANGED for value in self.pick(change.new)])
        return tuple(map(ne, self.pick(old), self.pick(change.new)))

    def _old_key(self, change: Change) -> Values:
        """An update has no old image if its key, at least, did not change."""
        image = change.new if change.old is None else change.old
        assert image is not None
        return self.key(image)

    def _whole(self, values: Values) -> Values:
        """Values that must all be there."""
        if UNCHANGED in values and any(value is UNCHANGED for value in values):
            raise self._lacking("a large value that did not change")
        return values

    # -- calls ------------------------------------------------------------------------------------

    def _insert(self) -> Make:
        article, code, pick, key, hashkey = (
            self.article_id, TYPE_OF["ins"], self.pick, self.key, self.hashkey,
        )  # fmt: skip

        def make(change: Change) -> Command:
            new = change.new
            assert new is not None
            return (article, code, hashkey(key(new)), _record(pick(new)))

        return make

    def _delete(self) -> Make:
        article, code, key, hashkey = self.article_id, TYPE_OF["del"], self.key, self.hashkey

        def make(change: Change) -> Command:
            assert change.old is not None
            known = key(change.old)
            return (article, code, hashkey(known), _record(known))

        return make

    def _delete_image(self) -> Make:
        article, code, key, hashkey = self.article_id, TYPE_OF["del"], self.key, self.hashkey
        image = self._before()

        def make(change: Change) -> Command:
            old = self._old_row_needed(change)
            return (article, code, hashkey(key(old)), _record(image(old)))

        return make

    def _update(self) -> Make:
        article, code, pick, hashkey = self.article_id, TYPE_OF["upd"], self.pick, self.hashkey

        def make(change: Change) -> Command:
            assert change.new is not None
            values, known = self._whole(pick(change.new)), self._old_key(change)
            return (article, code, hashkey(known), _record((*values, *known)))

        return make

    def _update_changed(self) -> Make:
        """SCALL: which columns changed picks a template that is filled with their values."""
        article, code, pick, key, hashkey = (
            self.article_id, TYPE_OF["upd"], self.pick, self.key, self.hashkey,
        )  # fmt: skip
        version = self.version
        templates: dict[tuple[bool, ...], tuple[bytes, _Pick, int, bytes]] = {}
        count, total = len(self.values), len(self.values) + len(self.keys)

        def template(differs: tuple[bool, ...]) -> tuple[bytes, _Pick, int, bytes]:
            if len(templates) >= _TEMPLATES_MAX:
                templates.clear()
            changed = [at for at, differ in enumerate(differs) if differ]
            taken = [*changed, *range(count, total)]
            mask = _mask_text(changed, count)
            fields = [b'"%b"' if differ else b"" for differ in differs]
            fields += [b'"%b"'] * len(self.keys)
            text = b"(" + b",".join(fields) + b',"\\' + mask + b'")'
            templates[differs] = made = (text, _picker(taken, total), 2 * len(taken) + 2, mask)
            return made

        def make(change: Change) -> Command:
            _, _, old, new, old_is_key = change
            assert new is not None
            after = pick(new)
            if old is None or old_is_key or old[version] is None:
                known, differs = self._old_key(change), self._differences(change)
            else:
                known, differs = key(old), tuple(map(ne, pick(old), after))
            found = templates.get(differs) or template(differs)
            taken = found[1]((*after, *known))
            if None not in taken:
                text = found[0] % tuple(taken)
                if text.count(b'"') == found[2] and text.count(b"\\") == 2:
                    return (article, code, hashkey(known), text)
            sparse = [
                value if differ else None for value, differ in zip(after, differs, strict=True)
            ]
            return (article, code, hashkey(known), record_text((*sparse, *known, found[3])))

        return make

    def _update_masked(self) -> Make:
        article, code, pick, hashkey = self.article_id, TYPE_OF["upd"], self.pick, self.hashkey
        count = len(self.values)

        def make(change: Change) -> Command:
            assert change.new is not None
            after, known = self._whole(pick(change.new)), self._old_key(change)
            changed = [at for at, differs in enumerate(self._differences(change)) if differs]
            mask = _mask_text(changed, count)
            return (article, code, hashkey(known), _record((*after, *known, mask)))

        return make

    def _update_images(self) -> Make:
        article, code, pick, key, hashkey = (
            self.article_id, TYPE_OF["upd"], self.pick, self.key, self.hashkey,
        )  # fmt: skip
        image = self._before()

        def make(change: Change) -> Command:
            assert change.new is not None
            old = self._old_row_needed(change)
            return (article, code, hashkey(key(old)), _record((*image(old), *pick(change.new))))

        return make

    def _before(self) -> _Pick:
        """The old values as XCALL passes them: large ones are NULL, but by the key the row is found."""
        pick = self.pick
        hidden = [
            at for at, column in enumerate(self.article.value_columns) if self._is_large(column)
        ]
        if not hidden:
            return pick

        def image(old: Values) -> Values:
            values = list(pick(old))
            for at in hidden:
                values[at] = None
            return values

        return image

    def _is_large(self, column: Column) -> bool:
        if column.name in self.article.key:
            return False
        return column.type in ("bytea", "xml") if self.large is None else column.name in self.large

    # -- statements -------------------------------------------------------------------------------

    def _insert_statement(self) -> Make:
        columns = self.article.value_columns
        head = _text("INSERT INTO {} ({})", self.table, f.identifiers(c.name for c in columns))
        # what the Publisher's identity gave; no harm where there is none
        if any(column.identity for column in columns):
            head += b" OVERRIDING SYSTEM VALUE"
        literals, pick = [_literals(column) for column in columns], self.pick

        def make(change: Change) -> Command:
            assert change.new is not None
            texts = [lit(v) for lit, v in zip(literals, pick(change.new), strict=True)]
            text = b"%b VALUES (%b)" % (head, b", ".join(texts))
            return (self.article_id, _STATEMENT + TYPE_OF["ins"], 0, text)

        return make

    def _update_statement(self) -> Make:
        """Sets every column but the key, which is set only if it changed."""
        head = _text("UPDATE {} SET ", self.table)
        where, key, pick = self._where(), self.key, self.pick
        columns = [
            (column.name in self.article.key, _text("{} = ", _name(column)), _literals(column), at)
            for at, column in enumerate(self.article.value_columns)
            if column.identity != "a"  # takes no value, and cannot have changed
        ]

        def make(change: Change) -> Command:
            assert change.new is not None
            values, known = pick(change.new), self._old_key(change)
            moved = known != key(change.new)
            texts = [
                name + literal(values[at])
                for is_key, name, literal, at in columns
                if (moved or not is_key) and values[at] is not UNCHANGED
            ]
            text = b"%b%b WHERE %b" % (head, b", ".join(texts), where(known))
            return (self.article_id, _STATEMENT + TYPE_OF["upd"], 0, text)

        return make

    def _delete_statement(self) -> Make:
        head = _text("DELETE FROM {} WHERE ", self.table)
        where, key = self._where(), self.key

        def make(change: Change) -> Command:
            assert change.old is not None
            return (
                self.article_id, _STATEMENT + TYPE_OF["del"], 0, head + where(key(change.old)),
            )  # fmt: skip

        return make

    def _where(self) -> Callable[[Values], bytes]:
        columns = self.article.key_columns
        heads = [_text("{} {} ", _name(column), f.raw(column.equality)) for column in columns]
        literals = [_literals(column) for column in columns]

        def where(known: Values) -> bytes:
            return b" AND ".join(
                [
                    head + literal(value)
                    for head, literal, value in zip(heads, literals, known, strict=True)
                ]
            )

        return where


# -- pieces ---------------------------------------------------------------------------------------


def _picker(places: Sequence[int], width: int) -> _Pick:
    """A function that takes these places out of a row."""
    if list(places) == list(range(width)):
        return lambda row: row
    if len(places) == 1:
        (only,) = places
        return lambda row: (row[only],)
    return itemgetter(*places)


def _record(values: Values) -> bytes:
    """As `record_text`: quotes the values first and looks whether that was enough."""
    parts = [b"" if value is None else b'"%b"' % value for value in values]
    text = b"(%b)" % b",".join(parts)
    if b"\\" in text or text.count(b'"') != 2 * (len(parts) - parts.count(b"")):
        return record_text(values)
    return text


def _mask_text(changed: Sequence[int], columns: int) -> bytes:
    return b"\\x" + bitmask(changed, columns).hex().encode()


def _hashkeys(columns: Sequence[Column]) -> Callable[[Values], int]:
    """From the key's values to 1 … 63; 0, the one stream for all, where texts do not tell keys apart."""
    for column in columns:
        if column.equality != "=" or column.collation or not _CANONICAL.match(column.type):
            return lambda known: 0
    crc, buckets = zlib.crc32, STREAMS_MAX - 1
    if len(columns) == 1:
        return lambda known: crc(known[0] or b"") % buckets + 1
    return lambda known: crc(b"\0".join([value or b"" for value in known])) % buckets + 1


def _name(column: Column) -> sql.Identifier:
    return sql.Identifier(column.name)


def _text(template: LiteralString, *parts: sql.Composable) -> bytes:
    return sql.SQL(template).format(*parts).as_bytes(None)


def _literals(column: Column) -> Callable[[bytes | None], bytes]:
    """From values of a column to literals that name its type."""
    cast = f"::{column.type}".encode()

    def literal(value: bytes | None) -> bytes:
        if value is None:
            return b"NULL"
        value = value.replace(b"'", b"''")
        if b"\\" in value:  # read the same whatever standard_conforming_strings says
            return b"E'" + value.replace(b"\\", b"\\\\") + b"'" + cast
        return b"'" + value + b"'" + cast

    return literal
