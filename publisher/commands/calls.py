"""Changes as calls: the arguments of a procedure, as text of a row.

The text is that of `twopc.propagation.record_text`, made faster: values are quoted without escaping, and the
text is made again with escaping only if a quote or backslash occurs among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import ne

from twopc.propagation import TYPE_OF, bitmask, is_large, record_text
from twopc.publisher.commands.rows import Command, LoggedRows, Make, Pick, Values, picker
from twopc.publisher.pgoutput import RowMessage

_INSERT, _UPDATE, _DELETE = TYPE_OF["ins"], TYPE_OF["upd"], TYPE_OF["del"]

#: Maximum number of bitmasks that are kept; a wide table may have many more.
_KEPT_MAX = 1024


def insert(rows: LoggedRows) -> Make:
    """Return a function that makes a CALL of an insert: all values."""
    article, pick, key, hashkey = rows.article_id, rows.pick, rows.key, rows.hashkey

    def make(change: RowMessage) -> Command:
        new = change.new
        assert new is not None
        return (article, _INSERT, hashkey(key(new)), _record(pick(new)))

    return make


def delete(rows: LoggedRows) -> Make:
    """Return a function that makes a CALL of a delete: the key."""
    article, key, hashkey = rows.article_id, rows.key, rows.hashkey

    def make(change: RowMessage) -> Command:
        assert change.old is not None
        known = key(change.old)
        return (article, _DELETE, hashkey(known), _record(known))

    return make


def delete_image(rows: LoggedRows) -> Make:
    """Return a function that makes an XCALL of a delete: all old values."""
    article, key, hashkey = rows.article_id, rows.key, rows.hashkey
    image = _before(rows)

    def make(change: RowMessage) -> Command:
        old = rows.old_row_needed(change)
        return (article, _DELETE, hashkey(key(old)), _record(image(old)))

    return make


def update(rows: LoggedRows) -> Make:
    """Return a function that makes a CALL of an update: all new values, old key."""
    article, pick, hashkey = rows.article_id, rows.pick, rows.hashkey

    def make(change: RowMessage) -> Command:
        assert change.new is not None
        values, known = rows.whole(pick(change.new)), rows.old_key(change)
        return (article, _UPDATE, hashkey(known), _record((*values, *known)))

    return make


def update_changed(rows: LoggedRows) -> Make:
    """Return a function that makes an SCALL of an update: changed values, old key, bitmask.

    A template is kept for each set of changed columns, and filled with values.
    """
    article, pick, key, hashkey = rows.article_id, rows.pick, rows.key, rows.hashkey
    version, keys = rows.version, len(rows.article.key)
    templates: dict[tuple[bool, ...], tuple[bytes, Pick, int, bytes]] = {}

    def template(differs: tuple[bool, ...]) -> tuple[bytes, Pick, int, bytes]:
        if len(templates) >= _KEPT_MAX:
            templates.clear()
        count = len(differs)
        taken = [at for at, differ in enumerate(differs) if differ]
        taken += range(count, count + keys)
        mask = mask_text(differs)
        fields = [b'"%b"' if differ else b"" for differ in differs] + [b'"%b"'] * keys
        text = b'(%b,"\\%b")' % (b",".join(fields), mask)
        templates[differs] = made = (text, picker(taken, count + keys), 2 * len(taken) + 2, mask)
        return made

    def make(change: RowMessage) -> Command:
        _, _, old, new, old_is_key = change
        assert new is not None
        after = pick(new)
        if old is None or old_is_key or old[version] is None:
            known, differs = rows.old_key(change), rows.differences(change)
        else:
            known, differs = key(old), tuple(map(ne, pick(old), after))
        text, take, quotes, mask = templates.get(differs) or template(differs)
        taken = take((*after, *known))
        if None not in taken:
            text %= tuple(taken)
            if text.count(b'"') == quotes and text.count(b"\\") == 2:
                return (article, _UPDATE, hashkey(known), text)
        sparse = [value if differ else None for value, differ in zip(after, differs, strict=True)]
        return (article, _UPDATE, hashkey(known), record_text((*sparse, *known, mask)))

    return make


def update_masked(rows: LoggedRows) -> Make:
    """Return a function that makes an MCALL of an update: all new values, old key, bitmask."""
    article, pick, hashkey = rows.article_id, rows.pick, rows.hashkey
    masks: dict[tuple[bool, ...], bytes] = {}

    def make(change: RowMessage) -> Command:
        assert change.new is not None
        after, known = rows.whole(pick(change.new)), rows.old_key(change)
        differs = rows.differences(change)
        mask = masks.get(differs)
        if mask is None:
            if len(masks) >= _KEPT_MAX:
                masks.clear()
            masks[differs] = mask = b',"\\%b")' % mask_text(differs)
        return (article, _UPDATE, hashkey(known), _record((*after, *known))[:-1] + mask)

    return make


def update_images(rows: LoggedRows) -> Make:
    """Return a function that makes an XCALL of an update: all old values, all new values."""
    article, pick, key, hashkey = rows.article_id, rows.pick, rows.key, rows.hashkey
    image = _before(rows)

    def make(change: RowMessage) -> Command:
        assert change.new is not None
        old = rows.old_row_needed(change)
        return (article, _UPDATE, hashkey(key(old)), _record((*image(old), *pick(change.new))))

    return make


# -- pieces ---------------------------------------------------------------------------------------


def _before(rows: LoggedRows) -> Pick:
    """Return a function that takes the old values of an XCALL: large ones are NULL, except those of the key."""
    article, pick, large = rows.article, rows.pick, rows.large
    hidden = [
        at
        for at, column in enumerate(article.value_columns)
        if column.name not in article.key
        and (is_large(column.type) if large is None else column.name in large)
    ]
    if not hidden:
        return pick

    def image(old: Values) -> Values:
        values = list(pick(old))
        for at in hidden:
            values[at] = None
        return values

    return image


def _record(values: Values) -> bytes:
    parts = [b"" if value is None else b'"%b"' % value for value in values]
    text = b"(%b)" % b",".join(parts)
    # 92 is a backslash; an empty value is a pair of quotes, so an empty part is NULL
    if 92 in text or text.count(b'"') != 2 * (len(parts) - parts.count(b"")):
        return record_text(values)
    return text


def mask_text(differs: Sequence[bool]) -> bytes:
    """Return the bitmask as text of a bytea."""
    changed = (at for at, differ in enumerate(differs) if differ)
    return b"\\x" + bitmask(changed, len(differs)).hex().encode()
