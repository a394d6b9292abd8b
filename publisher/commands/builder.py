"""The commands of a change: one per article that the changed row belongs to, in the article's format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from twopc.distributed_article import DistributedArticle
from twopc.errors import ArticleError
from twopc.names import article_name
from twopc.propagation import OPERATIONS, Format
from twopc.publisher.commands import calls, statements
from twopc.publisher.commands.rows import Command, LoggedRows, Make
from twopc.publisher.pgoutput import RelationMessage, RowMessage

#: Per filtered article of a relation, in the order of their numbers: whether the old image and whether the
#: new image belongs to it.
Belonging = Sequence[tuple[bool, bool]]

#: By operation and format: functions that return the function that makes an article's command. None for NONE.
_MAKERS: dict[str, dict[Format, Callable[[LoggedRows], Make]]] = {
    "ins": {Format.CALL: calls.insert, Format.SQL: statements.insert},
    "upd": {
        Format.CALL: calls.update,
        Format.SCALL: calls.update_changed,
        Format.MCALL: calls.update_masked,
        Format.XCALL: calls.update_images,
        Format.SQL: statements.update,
    },
    "del": {
        Format.CALL: calls.delete,
        Format.XCALL: calls.delete_image,
        Format.SQL: statements.delete,
    },
}


class _Plan:
    """Functions that make commands of one relation's changes."""

    __slots__ = ("all", "filtered", "relation")

    def __init__(self, relation: RelationMessage, articles: Sequence[DistributedArticle]) -> None:
        for article in articles:
            check_fit(relation, article)
        self.relation = relation
        #: functions of articles without a filter, by operation
        self.all: dict[str, tuple[Make, ...]] = dict.fromkeys(OPERATIONS, ())
        #: functions of articles with a filter
        self.filtered: list[dict[str, Make]] = []
        for article in articles:
            rows, method = LoggedRows(relation, article), article.propagation.method
            made = {
                operation: makers[form](rows)
                for operation, makers in _MAKERS.items()
                if (form := method(operation).format) is not Format.NONE
            }
            if article.article.row_filter is not None:
                self.filtered.append(made)
                continue
            for operation, make in made.items():
                self.all[operation] += (make,)


class CommandBuilder:
    """Makes the commands of changes.

    Args:
        articles: all articles; several may be on one table.
    """

    def __init__(self, articles: Iterable[DistributedArticle]) -> None:
        self._articles: dict[tuple[str, str], list[DistributedArticle]] = {}
        for each in sorted(articles, key=lambda each: each.article_id):
            self._articles.setdefault((each.article.schema, each.article.table), []).append(each)
        self._plans: dict[int, _Plan] = {}  # by the id of a relation
        self._announced: dict[int, int] = {}  # the id of the latest relation, by its oid

    @property
    def tables(self) -> dict[int, str]:
        """Names of the articles' tables, by the number of the article or part."""
        return {
            each.article_id: article_name(schema, table)
            for (schema, table), on in self._articles.items()
            for each in on
        }

    @property
    def has_filters(self) -> bool:
        """Whether an article has a row filter, so that changes must first be compared with filters in blocks."""
        return any(
            a.article.row_filter is not None for each in self._articles.values() for a in each
        )

    def filtered(self, relation: RelationMessage) -> tuple[DistributedArticle, ...]:
        """Return the articles on a relation that have a row filter, in the order of a `Belonging`."""
        result = self._articles.get((relation.schema, relation.name), ())
        return tuple(each for each in result if each.article.row_filter is not None)

    def fits(self, relation: RelationMessage) -> bool:
        """Return whether the articles on a relation fit the log's description of it: see `check_fit`."""
        try:
            self._plan(relation)
        except ArticleError:
            return False
        return True

    def sole_call(self, relation: RelationMessage, operation: str) -> LoggedRows | None:
        """Return the rows of the article whose default call is the only command of such changes, or None.

        The default call is SCALL for an update, CALL for other operations.
        """
        result = self._articles.get((relation.schema, relation.name), ())
        if len(result) != 1 or result[0].article.row_filter is not None or not self.fits(relation):
            return None
        requested = Format.SCALL if operation == "upd" else Format.CALL
        if result[0].propagation.method(operation).format is not requested:
            return None
        return LoggedRows(relation, result[0])

    def commands(self, change: RowMessage, belonging: Belonging = ()) -> Sequence[Command]:
        """Return the commands of one change; none if its table is not published.

        Args:
            belonging: for the articles that `filtered` returns.

        Raises:
            ArticleError: an article no longer fits the log's description of its table.
        """
        relation = change.relation
        plan = self._plans.get(id(relation))
        if plan is None or plan.relation is not relation:
            plan = self._plan(relation)
        if not plan.filtered:
            made = plan.all[change.operation]
            if len(made) == 1:
                return (made[0](change),)
            return [make(change) for make in made]
        commands = [make(change) for make in plan.all[change.operation]]
        for made_by, (old, new) in zip(plan.filtered, belonging, strict=True):
            make = made_by.get(_operation_for(change.operation, old, new))
            if make is not None:
                commands.append(make(change))
        return commands

    def _plan(self, relation: RelationMessage) -> _Plan:
        result = self._plans.get(id(relation))
        if result is not None and result.relation is relation:
            return result
        plan = _Plan(relation, self._articles.get((relation.schema, relation.name), ()))
        # the plan refers to its relation, so that the id is not reused; the relation announced before is
        # unlikely to occur again
        self._plans.pop(self._announced.get(relation.oid, 0), None)
        self._announced[relation.oid] = id(relation)
        self._plans[id(relation)] = plan
        return plan


def _operation_for(operation: str, old: bool, new: bool) -> str:
    """Return the operation that a change is for an article, given which images belong to it; empty if none."""
    match operation, old, new:
        case ("ins", _, True) | ("upd", False, True):
            return "ins"
        case ("del", True, _) | ("upd", True, False):
            return "del"
        case "upd", True, True:
            return "upd"
    return ""


def check_fit(relation: RelationMessage, distributed: DistributedArticle) -> None:
    """Check that the log's description of a table matches the article.

    Raises:
        ArticleError: names the difference and the remedy.
    """
    article = distributed.article
    values = article.value_columns
    held = {column.name: column.type_oid for column in relation.columns}
    types = distributed.types or (0,) * len(values)
    known = {column.name: oid for column, oid in zip(values, types, strict=True)}
    gone = [name for name in (*known, *distributed.left_out) if name not in held]
    others = {*distributed.left_out, *distributed.generated}
    fresh = [name for name in held if name not in known and name not in others]
    other = [name for name, oid in known.items() if oid and held.get(name, oid) != oid]
    for names, what in (
        (gone, "is not in them"),
        (fresh, "was not there when it was published"),
        (other, "had another type when it was published"),
    ):
        if names:
            raise ArticleError(
                f"article {article.name} does not fit the changes of its table in the log: column "
                f"{names[0]!r} {what}: `twopc regenerate` it at the Publisher and its Subscribers. If that "
                "was done while changes of the old shape waited to be read, unsubscribe, unpublish it and "
                "publish it again"
            )
