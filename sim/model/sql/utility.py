"""Statements that the parser does not know, such as SET, LOCK TABLE, TRUNCATE, CALL and NOTIFY.

They are recognised by their words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from twopc.lexer import unquoted
from twopc.sim.model.node.after_triggers import after_statement
from twopc.sim.model.node.modes import ACCESS_EXCLUSIVE, TABLE_MODES
from twopc.sim.model.node.triggers import before_statement
from twopc.sim.model.sql import parse, plpgsql, rights, settings
from twopc.sim.model.sql.bind import Context, Scope
from twopc.sim.model.sql.control import is_mode
from twopc.sim.model.sql.functions import DEFAULTS, STRICT
from twopc.sim.model.sql.parameters import RoutineSignature, given_by
from twopc.sim.model.sql.short import call_plan
from twopc.sim.model.values import SqlError, StatementResult, Steps, UnsupportedError

Plan = Callable[..., Steps[StatementResult]]


def _at_once(tag: str, act: Callable[[Any], Any] | None = None) -> Plan:
    def run(tx: Any, params: Mapping[str, Any], variables: Any = None) -> Steps[StatementResult]:
        if act is not None:
            act(tx)
        return StatementResult(tag=tag)
        yield  # makes the plan a generator

    return run


nothing: Plan = _at_once("")


def plan(text: str, words: tuple[str, ...], plans: Any) -> Plan | None:
    """Return the plan of a utility statement; None for any other statement."""
    first = words[0]
    if first == "grant":
        return _grant(text, words, plans)
    if first == "comment":
        return _comment(text, words, plans)
    if first in ("analyze", "vacuum"):
        return _analyze(text, words, plans)
    if first == "set":
        return _set(text, words)
    if first == "reset":
        name = ".".join(one for one in words[1:] if one != ".")
        if name == "all":
            return _at_once("RESET", _reset_all)
        settings.refuse(name, None, local=False)
        return _at_once("RESET", lambda tx: settings.put(tx, name, None, local=False))
    if first == "show":
        return _show(".".join(one for one in words[1:] if one != "."))
    if first == "lock":
        return _lock(text, words, plans)
    if first == "truncate":
        return _truncate(text, words, plans)
    if first == "call":
        return _call(text, plans)
    if first in ("listen", "unlisten", "notify"):
        return _at_once(first.upper(), _mark_notified)
    if first == "declare":
        if "hold" not in words:
            raise UnsupportedError(text, "cursors")
        return _at_once("DECLARE CURSOR", lambda tx: tx.top.held.add("WITH HOLD"))
    if first == "discard":
        if words[1:] != ("all",):
            raise UnsupportedError(text, " ".join(words).upper())
        return _at_once("DISCARD ALL", _discard_all)
    if first == "do":
        return _do(text, words, plans)
    return None


def _analyze(text: str, words: tuple[str, ...], plans: Any) -> Plan:
    rest = words[2:] if words[1:2] == ("analyze",) else words[1:]
    if rest[:1] in (("full",), ("freeze",), ("verbose",), ("(",)):
        raise UnsupportedError(text, f"{words[0].upper()} {rest[0].upper()}")
    tables = _tables(text, rest, plans) if rest else list(plans.node.tables.values())

    def analyze(tx: Any) -> None:
        if words[0] == "vacuum" and tx.top.began_block:
            raise SqlError("25001", "VACUUM cannot run inside a transaction block")
        tx.statement()
        if "analyze" in words[:2]:
            for table in tables:  # tables of other owners are skipped, with a warning
                table.analyzed = table.analyzed or rights.has(tx, table, "maintain")

    return _at_once(words[0].upper(), analyze)


def _grant(text: str, words: tuple[str, ...], plans: Any) -> Plan:
    """Compile GRANT: rights to rows are never checked; rights to a table are recorded."""
    if "on" not in words:
        raise UnsupportedError(text, "GRANT of a role")
    on, to = words.index("on"), words.index("to")
    given = {"all" if word == "privileges" else word for word in words[1:on]}
    kind, *rest = words[on + 1 : to]
    if kind in ("function", "procedure", "routine", "sequence"):
        return _at_once("GRANT", lambda tx: tx.statement())
    if kind in ("schema", "database"):
        if refused := given & {"all", "create"}:
            raise UnsupportedError(text, f"GRANT {max(refused).upper()} ON {kind.upper()}")
        return _at_once("GRANT", lambda tx: tx.statement())
    if kind in ("all", "domain", "foreign", "language", "large", "parameter", "tablespace", "type"):
        raise UnsupportedError(text, f"GRANT ON {kind.upper()}")
    table_words = rest if kind == "table" else (kind, *rest)
    to_roles = names(text, words[to + 1 :])

    def grant(tx: Any) -> None:
        tx.statement()
        for table in _tables(text, table_words, plans):
            rights.grant(tx, table, given, to_roles)

    return _at_once("GRANT", grant)


def _comment(text: str, words: tuple[str, ...], plans: Any) -> Plan:
    """Compile COMMENT ON a table or a column: it has no effect, but requires ownership."""
    kind, *parts = words[2 : words.index("is")]
    if kind not in ("table", "column"):
        raise UnsupportedError(text, f"COMMENT ON {kind.upper()}")
    column = unquoted(parts.pop()) if kind == "column" else ""
    parts = parts[:-1] if column else parts

    def comment(tx: Any) -> None:
        (table,) = _tables(text, parts, plans)
        if column and column not in table.at:
            raise SqlError("42703", f'column "{column}" of relation "{table.name}" does not exist')
        rights.must_own(tx, table, "relation" if column else "table")
        tx.statement()

    return _at_once("COMMENT", comment)


def _tables(text: str, words: Sequence[str], plans: Any, after: Collection[str] = ()) -> list[Any]:
    """Return the listed tables, optionally with ONLY. Raise 42P01.

    Args:
        words: the names, and the words after them.
        after: words that may follow.

    Raises:
        UnsupportedError: another word follows.
    """
    return [plans.node.table(name) for name in names(text, words, after)]


def names(text: str, words: Sequence[str], after: Collection[str] = ()) -> list[str]:
    """Return the listed names, with their schemas except public; see `_tables`."""
    left = [word for word in words if word not in after]
    results = []
    while left:
        left = left[1:] if left[0] == "only" and left[1:2] not in ([], [","]) else left
        name, left = unquoted(left[0]), left[1:]
        if left[:1] == ["."] and len(left) > 1:
            schema, name, left = name, unquoted(left[1]), left[2:]
            name = name if schema == "public" else f"{schema}.{name}"
        results.append(name)
        if left[:1] not in ([], [","]) or left == [","]:
            raise UnsupportedError(text, f"{text.split()[0].upper()} … {' '.join(left).upper()}")
        left = left[1:]
    return results


def _mark_notified(tx: Any) -> None:
    tx.top.notified = True


def _reset_all(tx: Any) -> None:
    for name in dict.fromkeys((*tx.session.settings, *tx.settings)):
        tx.set(name, None, local=False)


def _discard_all(tx: Any) -> None:
    if tx.top.began_block:
        raise SqlError("25001", "DISCARD ALL cannot run inside a transaction block")
    _reset_all(tx)


def _set(text: str, words: tuple[str, ...]) -> Plan:
    rest = list(words[1:])
    local = bool(rest) and rest[0] == "local"
    if rest and rest[0] in ("local", "session"):
        rest = rest[1:]
    if rest[:1] == ["transaction"]:
        if not is_mode(rest[1:]):
            raise UnsupportedError(text, f"SET {' '.join(rest).upper()}")
        return _at_once("SET", lambda tx: _set_level(tx, " ".join(rest)))
    if rest[:1] == ["constraints"]:
        return _constraints(rest[1:])
    if rest[:1] in (["role"], ["characteristics"], ["authorization"]):
        raise UnsupportedError(text, " ".join(words[:3]).upper())
    if rest[:2] == ["time", "zone"]:
        raise UnsupportedError(text, "SET TIME ZONE")
    equals = next((place for place, word in enumerate(rest) if word in ("=", "to")), None)
    if equals is None:
        raise SqlError("42601", f"syntax error: {text}")
    name = "".join(rest[:equals])
    value = " ".join(unquoted(word) for word in rest[equals + 1 :]).replace(" , ", ", ")
    if value == "default" and not rest[-1].startswith("'"):
        settings.refuse(name, None, local=local)
        return _at_once("SET", lambda tx: settings.put(tx, name, None, local=local))
    if name == "search_path":
        value = settings.path_text([unquoted(word) for word in rest[equals + 1 :: 2]])
    settings.refuse(name, value, local=local)
    return _at_once("SET", lambda tx: settings.put(tx, name, value, local=local))


def _set_level(tx: Any, text: str) -> None:
    for level in ("read uncommitted", "read committed", "repeatable read", "serializable"):
        if level in text:
            if tx.top.cid > 0 and level != tx.top.level:
                raise SqlError(
                    "25001", "SET TRANSACTION ISOLATION LEVEL must be called before any query"
                )
            tx.top.level = "read committed" if level == "read uncommitted" else level


def _constraints(rest: list[str]) -> Plan:
    deferred = rest[-1] == "deferred"
    named = [unquoted(one) for one in rest[:-1] if one != ","]

    def run(tx: Any, params: Mapping[str, Any], variables: Any = None) -> Steps[StatementResult]:
        known = dict(_deferrable(tx.node))
        for name in named if named != ["all"] else ():
            if name not in known:
                raise SqlError("42704", f'constraint "{name}" does not exist')
        for name, declared in known.items():
            if named == ["all"] or name in named:
                tx.deferring[name] = deferred is not declared
        if not deferred:
            waiting, tx.top.deferred = tx.top.deferred, []
            for check in waiting:
                of = getattr(getattr(check, "key", None), "name", "") or getattr(
                    getattr(check, "index", None), "name", ""
                )
                if named == ["all"] or of in named:
                    yield from check.fire(tx)
                else:
                    tx.top.deferred.append(check)
        return StatementResult(tag="SET CONSTRAINTS")

    return run


def _deferrable(node: Any) -> list[tuple[str, bool]]:
    results = []
    for table in node.tables.values():
        results += [(index.name, index.deferred) for index in table.indexes if index.deferrable]
        results += [(key.name, key.deferred) for key in table.references if key.deferrable]
    return results


def _show(name: str) -> Plan:
    name = {"transactionisolationlevel": "transaction_isolation"}.get(name.replace(".", ""), name)
    if "." not in name and name not in DEFAULTS:
        raise UnsupportedError(name, f"the setting {name}")

    def run(tx: Any, params: Mapping[str, Any], variables: Any = None) -> Steps[StatementResult]:
        value = STRICT["current_setting"](Context(tx, params), name)
        return StatementResult(tag="SHOW", names=(name,), rows=((value,),), rowcount=1)
        yield  # makes the plan a generator

    return run


def _lock(text: str, words: tuple[str, ...], plans: Any) -> Plan:
    rest = [*words[2 if words[1:2] == ("table",) else 1 :]]
    nowait = rest[-1] == "nowait"
    if nowait:
        rest = rest[:-1]
    mode = ACCESS_EXCLUSIVE
    if "in" in rest:
        place = rest.index("in")
        message = " ".join(rest[place + 1 :]).removesuffix(" mode")
        if message not in TABLE_MODES:
            raise SqlError("42601", f"syntax error: {text}")
        mode, rest = TABLE_MODES[message], rest[:place]
    tables = _tables(text, rest, plans)

    def run(tx: Any, params: Mapping[str, Any], variables: Any = None) -> Steps[StatementResult]:
        # LOCK TABLE takes no snapshot: later statements see transactions for which it waited.
        for table in tables:
            if nowait and not tx.locks.try_table(tx.top, table, mode):
                raise SqlError("55P03", f'could not obtain lock on relation "{table.name}"')
            yield from tx.lock_table(table, mode)
        return StatementResult(tag="LOCK TABLE")

    return run


def _truncate(text: str, words: tuple[str, ...], plans: Any) -> Plan:
    rest = words[2 if words[1:2] == ("table",) else 1 :]
    tables = _tables(text, rest, plans, after=("cascade", "restrict"))
    for table in tables:
        others = [key for key in table.referenced if key.child not in tables]
        if others and rest[-1] == "cascade":
            raise UnsupportedError(text, "TRUNCATE CASCADE of a table that others refer to")
        if others:
            raise SqlError(
                "0A000", "cannot truncate a table referenced in a foreign key constraint"
            )

    def run(tx: Any, params: Mapping[str, Any], variables: Any = None) -> Steps[StatementResult]:
        for table in tables:
            rights.must_have(tx, table, "truncate")
        for table in tables:
            yield from tx.lock_table(table, ACCESS_EXCLUSIVE)
            yield from before_statement(tx, table, "tru")
            tx.assign()
            snap = tx.statement()
            for row in list(table.all_rows):
                version = row.versions[-1]
                if version.xmax is None:
                    table.delete(row, tx.sub, snap.cid)
                    tx.top.changes.append((table, "del", version.values, None))
                    tx.top.rows.append(row)
            yield from after_statement(tx, table, "tru", [])
        return StatementResult(tag="TRUNCATE TABLE")

    return run


def _call(text: str, plans: Any) -> Plan:
    node = parse.tree(f"select {text.strip()[4:]}").expressions[0]
    if parse.kind(node) == "Dot":
        name, node = parse.rendered(node).partition("(")[0].lower(), node.expression
    else:
        name = (
            str(node.this).lower()
            if parse.kind(node) == "Anonymous"
            else parse.rendered(node).partition("(")[0]
        )
    function = plans.function(name)
    if function is None:
        raise SqlError("42883", f"procedure {name} does not exist")
    given, named = given_by(parse.arguments(node), Scope(plans))
    return call_plan(function, name, given, named)


def _do(text: str, words: tuple[str, ...], plans: Any) -> Plan:
    body = next((word for word in words if word.startswith("$")), None)
    if body is None:
        raise UnsupportedError(text, "DO without a body in dollars")
    function = plpgsql.Function(
        "do", RoutineSignature("do", (), is_procedure=True), "plpgsql", unquoted(body), plans
    )

    def run(tx: Any, params: Mapping[str, Any], variables: Any = None) -> Steps[StatementResult]:
        tx.statement()
        yield from function(tx)
        return StatementResult(tag="DO")

    return run
