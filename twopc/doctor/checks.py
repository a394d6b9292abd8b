"""The checks of a server, one function for each question.

A check yields findings and changes nothing, and any role may run it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from twopc.doctor.finding import Finding, Level, alter_system, literal, statement
from twopc.doctor.node import ExaminedNode, Setting
from twopc.names import SLOT_PREFIX, BranchId

VERSION_MIN = 170000
VERSIONS_REFUSED = range(180000, 180002)

_EXTRA_SLOTS = 10
_GIDS_SHOWN = 5


def version_finding(number: int) -> Finding:
    """Return the finding about a ``server_version_num``; after an error, no other check can be run."""
    what = "server version"
    result = f"{number // 10000}.{number % 10000}"
    if number < VERSION_MIN:
        result += ": a wait in dblink cannot be cancelled before 17"
        remedy = "move to PostgreSQL 17 or later"
        return Finding(level="error", what=what, state=result, remedy=remedy)
    if number in VERSIONS_REFUSED:
        result += ": pgoutput can crash or lose rows before 18.2"
        remedy = "update to PostgreSQL 18.2 or later"
        return Finding(level="error", what=what, state=result, remedy=remedy)
    return Finding(level="ok", what=what, state=result)


def writable(node: ExaminedNode) -> Iterator[Finding]:
    """Check that the server accepts writes, which every node needs."""
    name: LiteralString = "default_transaction_read_only"
    read_only = node.setting(name)
    assert read_only is not None
    if node.row("SELECT pg_is_in_recovery() AS standby")["standby"]:
        yield Finding(
            level="error",
            what="writable",
            state="no: it is a standby",
            remedy="give the DSN of its primary",
        )
    elif read_only.setting == "on":
        yield Finding(
            level="error",
            what=name,
            state="on",
            remedy=_change(node, name, read_only, "off"),
        )
    else:
        yield Finding(level="ok", what="writable", state="yes")


def wal_level(node: ExaminedNode) -> Iterator[Finding]:
    """Check ``wal_level`` of a Publisher, whose WAL the log reader decodes."""
    name: LiteralString = "wal_level"
    setting = node.setting(name)
    if node.role_of_node != "publisher" or setting is None:
        return
    if setting.setting == "logical":
        yield Finding(level="ok", what=name, state="logical")
    else:
        yield Finding(
            level="error",
            what=name,
            state=f"{setting}: the log reader cannot read such a WAL",
            remedy=alter_system(name, "logical", restart=True),
        )


def replication_slots(node: ExaminedNode) -> Iterator[Finding]:
    """Check that a slot and a WAL sender are available to the log reader, and that no slot is lost."""
    if node.role_of_node != "publisher":
        return
    counts: tuple[tuple[LiteralString, LiteralString], ...] = (
        ("max_replication_slots", "SELECT count(*) AS used FROM pg_replication_slots"),
        ("max_wal_senders", "SELECT count(*) AS used FROM pg_stat_replication"),
    )
    for name, count in counts:
        used = node.row(count)["used"]
        total = node.number(name)
        if used < total:
            yield Finding(level="ok", what=name, state=f"{total}, {used} in use")
        else:
            yield Finding(
                level="error",
                what=name,
                state=f"{total}, all in use: there is none for the log reader",
                remedy=alter_system(name, str(total + _EXTRA_SLOTS), restart=True),
            )
    for slot in node.rows(
        "SELECT slot_name, coalesce(invalidation_reason, wal_status) AS reason"
        " FROM pg_replication_slots"
        " WHERE database = current_database() AND wal_status = 'lost'"
    ):
        drop = "SELECT pg_drop_replication_slot({}); -- then `twopc reinitialise` every Subscriber"
        yield Finding(
            level="error",
            what=f"slot {slot['slot_name']}",
            state=f"lost ({slot['reason']}): what it had not read is gone",
            remedy=statement(drop, sql.Literal(slot["slot_name"])),
        )
    yield from _unregistered(node)
    yield from _missing(node)


def _missing(node: ExaminedNode) -> Iterator[Finding]:
    """Check that the slots that a distribution database knows of this database exist."""
    there = {row["slot_name"] for row in node.rows("SELECT slot_name FROM pg_replication_slots")}
    for name, database in sorted((node.registered or {}).items()):
        if database == node.database and name not in there:
            yield Finding(
                level="error",
                what=f"slot {name}",
                state=f"does not exist, and the distribution database reads database {database} with it:"
                " changes since it was dropped are lost to the Subscribers",
                remedy="twopc reinitialise SUBSCRIBER -- every one",
            )


def _unregistered(node: ExaminedNode) -> Iterator[Finding]:
    """Check for slots of ours that no distribution database knows, which retain the log for ever."""
    for slot in node.rows(
        "SELECT slot_name, active, pg_size_pretty(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery()"
        " THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn)) AS kept"
        " FROM pg_replication_slots"
        " WHERE database = current_database() AND NOT temporary"
        " AND wal_status <> 'lost' AND starts_with(slot_name, %s) ORDER BY slot_name",
        SLOT_PREFIX,
    ):
        name, kept = slot["slot_name"], f"{slot['kept']} of log kept"
        drop = statement("SELECT pg_drop_replication_slot({});", sql.Literal(name))
        if name in (node.registered or ()) or (slot["active"] and node.registered is None):
            yield Finding(level="ok", what=f"slot {name}", state=kept)
        elif node.registered is None:
            yield Finding(
                level="warning",
                what=f"slot {name}",
                state=f"not in use now, {kept}",
                remedy="add --node distribution=DSN to see whether it is registered there; if it is"
                f" not:\n{drop}",
            )
        else:
            yield Finding(
                level="error",
                what=f"slot {name}",
                state=f"registered nowhere in the distribution database, {kept}",
                remedy=f"{drop} -- unless another distribution database has it",
            )


def prepared_slots(node: ExaminedNode) -> Iterator[Finding]:
    """Check that branches can be prepared: each occupies a slot from PREPARE TRANSACTION until it is finished."""
    name: LiteralString = "max_prepared_transactions"
    setting = node.setting(name)
    if node.role_of_node == "distribution" or setting is None:
        return
    slots = int(setting.setting)
    connections = node.number("max_connections")
    used = int(node.row("SELECT count(*) AS used FROM pg_prepared_xacts")["used"])
    more = alter_system(name, str(max(connections, slots + _EXTRA_SLOTS)), restart=True)
    if slots == 0:
        result = f"{setting}: nothing can be prepared"
        yield Finding(level="error", what=name, state=result, remedy=more)
    elif used >= slots:
        result = f"{setting}, all in use: nothing more can be prepared"
        yield Finding(level="error", what=name, state=result, remedy=f"{more}\ntwopc indoubt")
    elif slots < connections:
        result = f"{setting}, fewer than max_connections ({connections}): a commit can find none"
        yield Finding(level="warning", what=name, state=result, remedy=more)
    else:
        yield Finding(level="ok", what=name, state=f"{setting}, {used} in use")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit:
    """A setting that can end sessions or transactions, invalidate slots, or reduce durability."""

    name: LiteralString
    harmless: tuple[str, ...]
    """Values that are safe, in the base unit; the first is recommended."""
    why: str
    publisher_only: bool = False
    harmful: tuple[str, ...] = ()
    """Values that are errors if another role has them: the spellings with which they can be set."""
    level: Level = "warning"


_LIMITS = (
    _Limit(name="fsync", harmless=("on",), why="a crash of the machine loses decisions"),
    _Limit(name="full_page_writes", harmless=("on",), why="a crash of the machine can tear pages"),
    _Limit(
        name="idle_session_timeout",
        harmless=("0",),
        why="ends links and the decision log's connection while they rest",
    ),
    _Limit(
        name="idle_in_transaction_session_timeout",
        harmless=("0",),
        why="ends a global transaction while its application thinks",
    ),
    _Limit(name="transaction_timeout", harmless=("0",), why="ends long global transactions"),
    _Limit(
        name="idle_replication_slot_timeout",
        harmless=("0",),
        why="invalidates the log reader's slot if it is away for longer",
        publisher_only=True,
    ),
    _Limit(
        name="max_slot_wal_keep_size",
        harmless=("-1",),
        why="invalidates the log reader's slot if it is further behind",
        publisher_only=True,
    ),
    _Limit(
        name="session_replication_role",
        harmless=("origin", "local"),
        harmful=("replica",),
        why="triggers do not fire, so changes are made at one end only",
        level="error",
    ),
    _Limit(
        name="event_triggers",
        harmless=("on",),
        harmful=("off", "false", "no", "0"),
        why="nothing refuses or notices ALTER TABLE of replicated tables",
        level="error",
    ),
)


def limits(node: ExaminedNode) -> Iterator[Finding]:
    """Check settings that end sessions, invalidate slots or reduce durability."""
    for limit in _LIMITS:
        setting = node.setting(limit.name)
        if setting is None or (limit.publisher_only and node.role_of_node != "publisher"):
            continue
        if setting.setting in limit.harmless:
            yield Finding(level="ok", what=limit.name, state=str(setting))
        else:
            yield Finding(
                level=limit.level,
                what=limit.name,
                state=f"{setting}: {limit.why}",
                remedy=_change(node, limit.name, setting, limit.harmless[0]),
            )


def settings_of_roles(node: ExaminedNode) -> Iterator[Finding]:
    """Check that no role other than the one in use has a setting that disables triggers."""
    for limit in _LIMITS:
        for row in node.rows(
            "SELECT r.rolname AS role, d.datname AS database, s.value FROM ("
            " SELECT setrole, setdatabase, split_part(c, '=', 1) AS name, split_part(c, '=', 2) AS value"
            " FROM pg_db_role_setting, unnest(setconfig) AS c) AS s"
            " JOIN pg_roles r ON r.oid = s.setrole LEFT JOIN pg_database d ON d.oid = s.setdatabase"
            " WHERE s.name = %s AND lower(s.value) = ANY (%s) AND r.rolname <> current_user"
            " AND (d.datname IS NULL OR d.datname = current_database()) ORDER BY 1, 2",
            limit.name,
            list(limit.harmful),
        ):
            where = "" if row["database"] is None else " IN DATABASE {database}"
            holes = {"role": row["role"], "name": limit.name}
            if row["database"] is not None:
                holes["database"] = row["database"]
            yield Finding(
                level=limit.level,
                what=limit.name,
                state=f"{row['value']} for role {row['role']}: {limit.why}",
                remedy=statement("ALTER ROLE {role}" + where + " RESET {name};", **holes),
            )


def prepared_transactions(node: ExaminedNode) -> Iterator[Finding]:
    """Check for prepared transactions, ours and others, which hold locks and delay the creation of slots."""
    rows = node.rows(
        "SELECT gid, database, owner, date_trunc('second', now() - prepared)::text AS age"
        " FROM pg_prepared_xacts ORDER BY prepared"
    )
    if not rows:
        yield Finding(level="ok", what="prepared transactions", state="none")
    for own in (True, False):
        some = [row for row in rows if (BranchId.parse(row["gid"]) is not None) is own]
        if not some:
            continue
        shown = [
            f"{row['gid']!r} of {row['owner']} in {row['database']}, {row['age']} old"
            for row in some
        ]
        if len(shown) > _GIDS_SHOWN:
            shown[_GIDS_SHOWN:] = [f"{len(some) - _GIDS_SHOWN} more"]
        finish = [
            statement("ROLLBACK PREPARED {};", sql.Literal(row["gid"]))
            + f" -- or COMMIT PREPARED; as {row['owner']}, in {row['database']}"
            for row in some[:_GIDS_SHOWN]
        ]
        yield Finding(
            level="warning",
            what="prepared transactions" if own else "prepared by others",
            state=f"{'; '.join(shown)}: no replication slot can be made before they end",
            remedy="twopc indoubt\ntwopc recover"
            if own
            else "\n".join(["ask the owners of these transactions", *finish]),
        )


def link_password(node: ExaminedNode) -> Iterator[Finding]:
    """Check that link roles need a password: dblink refuses a role that is no superuser and was not asked for one."""
    if node.role_of_node != "publisher":
        return
    if node.asks_for_password:
        yield Finding(level="ok", what="pg_hba.conf", state="wants a password of a link role")
        return
    lines = ""
    may_read = "SELECT has_function_privilege('pg_hba_file_rules()', 'EXECUTE') AS may"
    if node.row(may_read)["may"]:
        rules = node.rows(
            "SELECT line_number, auth_method FROM pg_hba_file_rules"
            " WHERE auth_method IN ('trust', 'peer', 'ident') ORDER BY rule_number"
        )
        lines = ", ".join(f"line {rule['line_number']} {rule['auth_method']}" for rule in rules)
    yield Finding(
        level="error",
        what="pg_hba.conf",
        state="wants no password of a link role, so dblink refuses the link (2F003)"
        + (f": {lines}" if lines else ""),
        remedy="in pg_hba.conf, make scram-sha-256 the method of the line by which Subscribers"
        " come in, then\nSELECT pg_reload_conf();",
    )


def _change(node: ExaminedNode, name: LiteralString, setting: Setting, value: str) -> str:
    """Return the statement that changes a setting where it was set."""
    change = sql.SQL(name) + sql.SQL(" = ") + literal(value)
    if setting.source == "database":
        return statement("ALTER DATABASE {} SET {};", node.database, change)
    if setting.source == "user":
        return statement("ALTER ROLE {} SET {};", node.role, change)
    if setting.source == "database user":
        return statement("ALTER ROLE {} IN DATABASE {} SET {};", node.role, node.database, change)
    if setting.source in ("client", "environment variable"):
        return f"take {name} out of the DSN and PGOPTIONS"
    return alter_system(name, value, restart=False)
