"""SQL texts that draw the identity values of a merged table from ranges, and refuse other values.

Pure: from a `MergeArticle` to SQL. Executed by `twopc.drivers.merge.ranges`.
"""

from __future__ import annotations

from typing import LiteralString

from psycopg import sql

from twopc import names
from twopc.merge.articles import MergeArticle
from twopc.merge.ranges import MergeIdentity
from twopc.sql.merge_texts import TrackingTexts

_ALLOTTED: LiteralString = """exists (
            select from msrepl.msmerge_identity_range as r
            where r.artid = {artid} and r.place_end is null and v.v between r.range_begin and r.range_end)"""
#: Condition at a Subscriber: not in a range of its own, or in a range that it has allotted to another node.
_NOT_OWN: LiteralString = """(not exists (
            select from msrepl.msmerge_identity_range as r
            where r.artid = {artid} and r.place_end is not null and v.v between r.range_begin and r.range_end)
            or """
#: Condition at the topmost Publisher: not drawn yet, or in a range that it has allotted.
_NOT_DRAWN: LiteralString = """(v.v > (
            select coalesce(pg_sequence_last_value(a.identity_sequence), s.seqstart - s.seqincrement)
            from msrepl.sysmergearticles as a join pg_sequence as s on s.seqrelid = a.identity_sequence
            where a.artid = {artid})
            or """


class IdentityTexts(TrackingTexts):
    """Renders the objects that give an article's rows their identity values.

    Args:
        article: an article with identity ranges.
        is_copy: whether the table is at a Subscriber.
    """

    def __init__(self, article: MergeArticle, owner: str, *, is_copy: bool) -> None:
        super().__init__(article, owner)
        assert article.identity is not None
        self._identity: MergeIdentity = article.identity
        self._holes["column"] = sql.Identifier(article.identity.column)
        self._holes["column_text"] = sql.Literal(article.identity.column)
        self._artid = sql.Literal(str(article.artid))
        self._is_copy = is_copy
        self._role = names.table_role(owner, article.schema, article.table)
        self.places = sql.Identifier(names.SCHEMA, names.merge_places(article.nickname))

    def all(self) -> list[str]:
        """Return sequence, functions and triggers, in the order of creation."""
        return [*(self._draw() if self._is_copy else ()), *self._check()]

    def _draw(self) -> list[str]:
        text = sql.Literal(self.places.as_string(None))
        return [
            self._render("merge_identity_places", sequence=self.places, text=text),
            self._function(
                "merge_draw_identity",
                "idn",
                "Gives identity values to rows of",
                artid=self._artid,
                sequence=text,
                step=sql.Literal(self._identity.step),
            ),
            self._function_of(
                self._role,
                "merge_highest_identity",
                "idh",
                "Reads the highest identity value of",
            ),
            self._render(
                "merge_draw_identity_trigger",
                trigger=self.trigger("idn"),
                function=self.function("idn"),
            ),
        ]

    def _check(self) -> list[str]:
        hint = "Leave the column out, and the row gets the next value of this node"
        begin, whose = _NOT_OWN, "in no identity range of this node"
        if not self._is_copy:
            begin, whose = _NOT_DRAWN, "allotted to another node, or not drawn yet"
            hint += "; for values of your own move the sequence beyond them before (setval)"
        is_foreign = sql.SQL(begin + _ALLOTTED + ")").format(artid=self._artid)
        return [
            self._function(
                "merge_check_identity",
                "idc",
                "Refuses identity values of others in rows of",
                is_foreign=is_foreign,
                whose=sql.Literal(whose),
                remedy=sql.Literal(f"{hint}."),
            ),
            self._render(
                "merge_check_identity_triggers",
                insert_trigger=self.trigger("idc"),
                update_trigger=self.trigger("idu"),
                function=self.function("idc"),
            ),
        ]
