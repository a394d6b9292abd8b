"""Parts of sentences: statements, rows, waits and refusals.

Pure functions of events and of the known versions of their rows.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from twopc import lexer
from twopc.sim.report.changes import Changes, VersionChange, changed_text
from twopc.sim.report.dependencies import refused_text
from twopc.sim.report.events import StepEnd
from twopc.sim.report.fold import Fold
from twopc.sim.report.phrases import (
    because,
    is_of_dependencies,
    nameless,
    raised_at,
    row_text,
    rows_text,
)
from twopc.sim.report.transactions import Author

#: Maximum number of changes of one transaction that are described one by one.
_CHANGES_TOLD = 3
#: By a statement's first word: its verb in two forms, and the preposition before its table.
_WRITES = {
    "insert": ("add", "adds", "to"),
    "update": ("change", "changes", "of"),
    "delete": ("delete", "deletes", "of"),
}
#: Words between the verb and the table's name.
_FILLERS = frozenset(("into", "from", "only"))
_MISSING = re.compile(
    r"Key \([^)]*\)=\((?P<value>.*?)\) is not present in table \"(?P<table>[^\"]+)\""
)


def one_line(sql: str) -> str:
    """Return a statement on one line."""
    return " ".join(sql.split())


def did(sql: str, ended: StepEnd) -> str:
    """Describe the work of a successful statement: ``changes 1 row of account``."""
    verb, table = _verb_and_table(sql)
    if verb in _WRITES and table:
        _, does, of = _WRITES[verb]
        return f"{does} {counted(ended.rowcount or 0, 'row')} {of} {table}"
    if ended.rows is not None:
        return f"reads {rows_text(ended.rows)}{f' of {table}' if table else ''}"
    return "runs a statement"


def wants(sql: str) -> str:
    """Describe the intention of a statement: ``wants to change account``."""
    verb, table = _verb_and_table(sql)
    if not table:
        return "runs a statement"
    if verb not in _WRITES:
        return f"wants to read {table}"
    do, _, of = _WRITES[verb]
    return f"wants to {do} {'a row to' if of == 'to' else 'rows of'} {table}"


def _verb_and_table(sql: str) -> tuple[str, str]:
    """Return a statement's first word and the table that it writes, or reads first; empty if there is none."""
    statement = next(iter(lexer.statements(sql)), [])
    text = lexer.words(statement)
    verb = text[0] if text else ""
    if verb in _WRITES:
        at = 1
        while at < len(text) and text[at] in _FILLERS:
            at += 1
        return verb, _name(statement[at:])
    if verb in ("select", "with", "table"):
        sources = (_name(statement[at + 1 :]) for at, word in enumerate(text) if word == "from")
        return verb, next(filter(None, sources), "")
    return verb, ""


def _name(tokens: Sequence[lexer.SqlToken]) -> str:
    """Return the name at the start of the tokens, as written; empty if they do not start with a name."""
    parts = itertools.takewhile(lambda token: token.name or token.text == ".", tokens)
    name = ""
    for part in parts:
        if name and not name.endswith(".") and part.text != ".":
            break  # an alias, or the next word
        name += part.text
    return name


def waits_for(wait: Mapping[str, Any]) -> str:
    """Describe a wait: ``waits at pub for alice, whose a_write holds a row of account``."""
    lock = wait.get("lock") or "what it needs"
    who = str(wait.get("session") or "")
    if not who:
        who = f"branch {wait['gid']}" if wait.get("gid") else nameless(wait)
        return f"waits at {wait.get('node')} for {who}, which holds {lock}"
    if wait.get("gid"):
        return f"waits at {wait.get('node')} for {who}, whose prepared transaction holds {lock}"
    step = f"whose {wait['step']} holds" if wait.get("step") else "who holds"
    return f"waits at {wait.get('node')} for {who}, {step} {lock}"


def waited_for(wait: Mapping[str, Any]) -> str:
    """Describe a wait in the past tense; see `waits_for`."""
    text = waits_for(wait).replace("waits at", "waited at", 1)
    return text.replace(" holds ", " held ", 1)


def made_text(changes: Sequence[VersionChange]) -> str:
    """Describe the changes of a transaction: ``account id=1 becomes v2 (balance 100 → 90)``."""
    lines = [one_change(each) for each in changes[:_CHANGES_TOLD]]
    left = len(changes) - len(lines)
    return "; ".join(lines) + (f"; and {counted(left, 'row')} more" if left else "")


def one_change(change: VersionChange) -> str:
    """Describe the change of one row."""
    if change.row is None:
        return f"{change.name} is gone"
    if change.before is None:
        return f"{change.name} is new: {row_text(change.row)}"
    return f"{change.name} becomes {change.label} ({changed_text(change)})"


def refused_because(ended: StepEnd, fold: Fold) -> str:
    """Describe why a statement was refused: the row versions that met, and the author of the newer one."""
    facts = ended.conflict
    if ended.refused_as == "serialization_failure":
        return _of_a_snapshot(ended, fold)
    other = found_change(facts, fold.changes)
    if other is None:
        return because(ended) + _parent_gone(ended, fold)
    maker = fold.step_of(other)
    if ended.refused_as in ("version_mismatch", "delete_stale"):
        own = fold.changes.version(
            other.table, other.key, str(facts.get("subscriber_version") or "")
        )
        came = own.label if own is not None else "an older version"
        which = f", which {maker} had made ({changed_text(other)})" if maker else ""
        return f"this copy of {other.name} was {came} and the Publisher had {other.label}{which}"
    how = "deleted" if other.row is None else "changed" if other.before else "added"
    return because(ended) + (f": {maker} had {how} it" if maker else "")


def _parent_gone(ended: StepEnd, fold: Fold) -> str:
    """Name the step that deleted the row that a foreign key refers to; empty if unknown."""
    missing = _MISSING.search(ended.message)
    if missing is None:
        return ""
    for row in fold.changes.rows_of(missing["table"]):
        last = row[-1]
        maker = fold.step_of(last)
        if last.row is None and maker and last.key.rpartition("=")[2] == missing["value"]:
            return f": {maker} had deleted {last.name}"
    return ""


def found_change(facts: Mapping[str, Any], changes: Changes) -> VersionChange | None:
    """Return the Publisher's version of the row that a refusal names; None if unknown."""
    table = str(facts.get("article") or "").removeprefix("public.")
    key = facts.get("key")
    if not isinstance(key, Mapping):
        return None
    named = ", ".join(f"{name}={value}" for name, value in key.items())
    known = changes.version(table, named, str(facts.get("publisher_version") or ""))
    if known is not None:
        return known
    versions = changes.of(table, named)
    gone = [each for each in versions if each.row is None]
    return gone[-1] if facts.get("kind") == "row_missing" and gone else None


def _of_a_snapshot(ended: StepEnd, fold: Fold) -> str:
    """Describe a serialization failure, which names no row.

    The transaction that changed the row is known if the step waited for it, or if it is the only candidate.
    """
    why = because(ended)
    refused = next(
        (one for one in fold.transactions if one.seq >= ended.seq and one.session == ended.session),
        None,
    )
    if is_of_dependencies(ended.message):
        unseen = refused_text(fold, refused, raised_at(ended))
        return why + (f": {unseen}" if unseen else "")
    begun = refused.begun if refused is not None else 0
    changed = [one for one in fold.changes.authors if fold.changes.made_by(one)]
    holder = fold.waited_for.get(ended.step)
    likely = [one for one in changed if holder and one.session == holder][-1:] or [
        one for one in changed if begun < one.seq < ended.seq
    ]
    if len(likely) != 1:
        return why
    return f"{why}, by {likely[0].session}'s commit: {made_text(fold.changes.made_by(likely[0]))}"


def transaction_of(gid: str, origin: str, authors: Sequence[Author]) -> str:
    """Return whose transaction an agent delivers: ``alice's transaction``."""
    for each in authors:
        if gid and each.gid == gid:
            return each.name
    unmarked = {each.name for each in authors if each.node == origin and not each.gid}
    if not gid and len(unmarked) == 1:
        return unmarked.pop()
    return f"a transaction of {origin}"


def listed(names: Sequence[str]) -> str:
    """Return ``a``, ``a and b``, ``a, b and c``."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def counted(count: int, noun: str) -> str:
    """Return ``1 row``, ``2 rows``."""
    return f"{count or 'no'} {noun}" if count in (0, 1) else f"{count:,} {noun}s"
