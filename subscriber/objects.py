"""SQL text of all objects that a subscription creates at a Subscriber.

Pure. `twopc.subscriber.subscription` executes the text; the script of a subscription is the same text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from psycopg import sql

from twopc import names
from twopc.sql import path
from twopc.sql.catalog_texts import PINNED
from twopc.sql.fragments import COMMA, qualified
from twopc.sql.render import compose, render
from twopc.sql.table_role import create_text, drop_text
from twopc.subscriber.capture import NOTHING, SEALED
from twopc.subscriber.trigger_order import OPERATIONS
from twopc.subscriber.triggers import LINK, BranchNames, TriggerTexts
from twopc.waits import link_prefix

_render = partial(render, "twopc.subscriber")

#: Name of the foreign server object that holds the Publisher's address.
SERVER = "msrepl_publisher"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkAddress:
    """Address of the Publisher for a Subscriber's server (the analogue of sp_link_publication)."""

    options: Mapping[str, str]
    """libpq options without user and password: host, port, dbname."""
    role: str
    password: str
    lock_timeout_ms: int = 5000
    """Lock timeout of a call at the Publisher."""

    def __repr__(self) -> str:
        return f"LinkAddress(options={dict(self.options)!r}, role={self.role!r}, password=...)"


def owner_role(database: str) -> str:
    """Return the role that owns the product's objects in a database: it cannot log in, and is not a superuser."""
    return names.role("owner", database)


def install_texts(database: str, sites: BranchNames, link: LinkAddress) -> list[str]:
    """Return the statements needed before a Subscriber's first article, without the password of the link."""
    role = owner_role(database)
    owner = sql.Identifier(role)
    return [
        _render(
            "create_owner",
            owner=owner,
            owner_text=sql.Literal(role),
            schema=sql.Identifier(names.SCHEMA),
        ),
        _render(
            "install_dblink",
            owner=owner,
            link_schema=sql.Identifier(names.LINK_SCHEMA),
            link_schema_text=sql.Literal(names.LINK_SCHEMA),
        ),
        *server_texts(owner, link),
        *shared_objects(owner, sites),
        _render(
            "register_agent",
            publisher=sql.Literal(sites.publisher),
            subscriber=sql.Literal(sites.subscriber),
            publisher_db=sql.Literal(link.options.get("dbname", "")),
            server=sql.Literal(SERVER),
            update_mode=sql.Literal("sync tran"),
        ),
    ]


def server_texts(owner: sql.Identifier, link: LinkAddress) -> list[str]:
    """Return statements that create the server object: the Publisher's address, and the settings of sessions there."""
    settings = (
        f"-c lock_timeout={link.lock_timeout_ms} -c idle_in_transaction_session_timeout=60s"
        " -c datestyle=ISO -c intervalstyle=postgres -c extra_float_digits=1 -c timezone=UTC"
        " -c array_nulls=on -c xmloption=content -c standard_conforming_strings=on"
        " -c quote_all_identifiers=off -c plan_cache_mode=force_generic_plan -c client_min_messages=error"
        # a vote is valid only if durable on the Publisher's disk, and at its synchronous standby
        " -c synchronous_commit=on -c client_connection_check_interval=300ms"
    )
    # The link to an unreachable Publisher breaks after 25 s; dblink ignores connect_timeout.
    options = {
        **link.options,
        "options": settings,
        **path.KEEPALIVE,
        "tcp_user_timeout": "25000",
    }
    server = sql.Identifier(SERVER)
    texts = [
        sql.SQL("drop server if exists {} cascade").format(server),
        sql.SQL("create server {} foreign data wrapper dblink_fdw options ({})").format(
            server, _options(options)
        ),
        sql.SQL("grant usage on foreign server {} to {}").format(server, owner),
    ]
    return [text.as_string(None) for text in texts]


def user_mapping_text(owner: sql.Identifier, role: str, password: str) -> str:
    """Return the statement that sets the role of the link; only the owner can read the password."""
    text = sql.SQL("create user mapping for {} server {} options ({})").format(
        owner, sql.Identifier(SERVER), _options({"user": role, "password": password})
    )
    return text.as_string(None)


def _options(options: Mapping[str, str]) -> sql.Composed:
    return COMMA.join(
        [
            sql.SQL("{} {}").format(sql.Identifier(name), sql.Literal(value))
            for name, value in options.items()
        ]
    )


def shared_objects(owner: sql.Identifier, sites: BranchNames) -> list[str]:
    """Return the texts of the objects at a Subscriber that do not depend on an article."""
    link = sql.Literal(LINK)
    return [
        _render("catalog", owner=owner),
        render("twopc", "branch_marker", owner=owner),
        render("twopc", "raise_conflict", owner=owner),
        render("twopc", "raise_stale", owner=owner),
        render("twopc", "table_structure", owner=owner, pinned=PINNED),
        render("twopc", "touched_tables", owner=owner),
        render("twopc", "fingerprints", owner=owner, pinned=PINNED, more=NOTHING),
        render("twopc", "missing_fingerprint", owner=owner),
        render("twopc", "refuse_truncate_function", owner=owner),
        _render("raise_uncoordinated", owner=owner),
        _render("name_transaction", owner=owner, is_proven=_is_begun("gid")),
        _render("any_client", owner=owner),
        _render("begin_any_client", owner=owner, link=link),
        _render("raise_inactive", owner=owner),
        _render("deactivate", owner=owner),
        _render("drop_triggers", owner=owner),
        *_link_objects(owner, sites),
        *_renew_version(owner),
        _render("held_row", owner=owner),
        _render(
            "send_held",
            owner=owner,
            own_branch=sites.own_branch,
            publisher_branch=sites.publisher_branch,
            sites=sites.array,
            sites_text=sites.array_text,
        ),
        _render("enter_statement", owner=owner),
        _render("leave_statement", owner=owner),
        _render("release_held", owner=owner),
        _render("close_statement", owner=owner),
        _render("make_stale", owner=owner),
        _render("refuse_partition", owner=owner),
        _render(
            "close_partition",
            owner=sql.SQL("current_user"),
            caller=owner,
            trigger=sql.Literal(names.first_trigger("trg_mssync_partition")),
        ),
        _render("ddl_guard_function", owner=owner),
        render("twopc", "ddl_guard_triggers"),
        *_voting(owner, sites),
        _render("guard_branches", owner=owner),
    ]


def _voting(owner: sql.Identifier, sites: BranchNames) -> list[str]:
    """Return the texts of the functions that prepare the Publisher's branch, and refuse a commit without it."""
    return [
        prepare_branch(owner, sites, may_hold=False),
        _render("flush_log", owner=owner),
        _render(
            "prepare_publisher",
            votes=_is_proven("'vote ' || array_to_string(sites, ',')", "$1", "$3"),
            begins=_is_begun("$1"),
            owner=owner,
            own_branch=sites.own_branch,
            sites=sites.array,
        ),
        _render(
            "refuse_unprepared",
            owner=owner,
            own_branch=sites.own_branch,
            sites=sites.array,
        ),
    ]


def _link_objects(owner: sql.Identifier, sites: BranchNames) -> list[str]:
    """Return the texts of the functions that use the link, and report on it."""
    link = sql.Literal(LINK)
    return [
        _render(
            "open_link",
            owner=owner,
            link=link,
            server=sql.Literal(SERVER),
            application_name=sql.Literal(link_prefix(sites.subscriber)),
        ),
        _render("link_is_lost", owner=owner, link=link),
        _render("drain_link", owner=owner, link=link),
        _render("query_link", owner=owner, link=link),
        _render("shown_detail", owner=owner),
        _render("explain_failure", owner=owner),
        _render("ship_again", owner=owner, link=link),
        _render("prepare_again", owner=owner, link=link),
        _render("flush", owner=owner, link=link),
        _render("reset_link", owner=owner, link=link),
        _render("fetch_generated", owner=owner),
        _render("fetch_stored", owner=owner),
    ]


def _renew_version(owner: sql.Identifier) -> list[str]:
    """Return the texts of the functions that give inserted rows their versions."""
    kept = sql.SQL(
        "if new.msrepl_tran_version = {} then\n        return new;\n    end if;\n    "
    ).format(SEALED)
    return [
        _render(
            "renew_version",
            owner=owner,
            function=sql.Identifier(names.SCHEMA, name),
            kept=condition,
            comment=sql.Literal("Gives an inserted row a version of its own"),
        )
        for name, condition in (
            ("renew_version", NOTHING),
            ("renew_version_unless_moved", kept),
        )
    ]


def _is_begun(gid: str) -> sql.Composed:
    """Return the condition that its coordinator has begun the transaction `gid` in this session."""
    return _is_proven("'begin'", gid, "current_setting('msrepl.proof', true)")


def _is_proven(what: str, gid: str, proof: str) -> sql.Composed:
    """Return the condition that a proof is valid; see `twopc.proof`. Each argument is an SQL expression."""
    return compose("twopc", "is_proven", what=sql.SQL(what), gid=sql.SQL(gid), proof=sql.SQL(proof))


def prepare_branch(owner: sql.Identifier, sites: BranchNames, *, may_hold: bool) -> str:
    """Return the text of the function that prepares the Publisher's branch, and first sends held rows if any."""
    held = (
        "\n    perform msrepl.send_held();"
        "\n    marker := nullif(current_setting('msrepl.marker', true), '')::tid;"
    )
    return _render(
        "prepare_branch",
        owner=owner,
        link=sql.Literal(LINK),
        held=sql.SQL(held if may_hold else ""),
        own_branch=sites.own_branch,
    )


def role_texts(role: str, coordinator: str | None = None) -> list[str]:
    """Return statements that let an application role take part in global transactions."""
    name = sql.Identifier(role)
    texts = [
        sql.SQL("grant usage on schema {} to {}").format(sql.Identifier(names.SCHEMA), name),
        sql.SQL("grant execute on procedure {}(text, integer, text, text[]) to {}").format(
            sql.Identifier(names.SCHEMA, "prepare_publisher"), name
        ),
        *(
            sql.SQL("grant execute on function {}() to {}").format(
                sql.Identifier(names.SCHEMA, function), name
            )
            for function in ("reset_link", "flush_log")
        ),
    ]
    if coordinator not in (None, role):
        texts.append(sql.SQL("grant {} to {}").format(name, sql.Identifier(str(coordinator))))
    return [text.as_string(None) for text in texts]


def deactivate_text(reason: str) -> str:
    """Return the statement that makes the subscription inactive."""
    return sql.SQL("select msrepl.deactivate({})").format(sql.Literal(reason)).as_string(None)


def article_texts(
    texts: TriggerTexts,
    partitions: Sequence[tuple[str, str]] = (),
    *,
    created_table: bool = False,
    added_version: bool = False,
    added_keys: Sequence[str] = (),
) -> list[str]:
    """Return the texts of rights, functions, triggers and registration of one article.

    Args:
        partitions: all partitions below a partitioned table, by schema and name.
    """
    relation = sql.Literal(texts.table.as_string(None))
    # the DDL guard ignores an article without a recorded structure
    drop = sql.SQL(
        "update msrepl.msreplication_objects set structure = '' where objid = {}::regclass;\n"
        "select msrepl.drop_triggers({}::regclass)"
    ).format(relation, relation)
    prepare = [prepare_branch(texts.owner, texts.sites, may_hold=True)] if texts.may_hold else []
    return [
        _render(
            "check_version",
            table=relation,
            table_name=sql.Literal(texts.article.name),
        ),
        *_grants(texts),
        drop.as_string(None),
        *texts.functions(),
        *texts.triggers([qualified(*partition) for partition in partitions]),
        *prepare,
        _render(
            "register_article",
            table=relation,
            schema=sql.Literal(texts.article.schema),
            article=sql.Literal(texts.article.table),
            created_table=sql.Literal(created_table),
            added_version=sql.Literal(added_version),
            added_keys=_text_array(added_keys),
            routines=_text_array([texts.function_name(operation) for operation in OPERATIONS]),
            parents=_text_array(
                [
                    qualified(key.target_schema, key.target_table).as_string(None)
                    for key in texts.article.references
                ]
            ),
            calls=sql.Literal(json.dumps({o: texts.call(o) for o in OPERATIONS})),
            write_back=sql.Literal(
                texts.function("back").as_string(None) if texts.takes_back else None
            ),
        ),
    ]


def _text_array(values: Sequence[str]) -> sql.Composed:
    return sql.SQL("array[{}]::text[]").format(COMMA.join([sql.Literal(v) for v in values]))


def _grants(texts: TriggerTexts) -> list[str]:
    """Return statements that let the objects' owner name the table, and that create a role to write rows back."""
    results: list[sql.Composable] = []
    if texts.may_hold or texts.takes_back:
        results.append(
            sql.SQL("grant usage on schema {} to {}").format(
                sql.Identifier(texts.article.schema), texts.owner
            )
        )
    if texts.takes_back:
        results.append(compose("twopc", "grant_replica", role=texts.owner))
    granted = [text.as_string(None) for text in results]
    if texts.takes_back:
        article = texts.article
        granted.append(
            create_text(texts.owner_name, article.schema, article.table, "select, update")
        )
    return granted


def drop_article_texts(owner: str, schema: str, table: str) -> list[str]:
    """Return statements that drop the functions, the type and the role of one article, after its triggers."""
    functions = [
        sql.SQL("drop function if exists {}").format(
            sql.Identifier(names.SCHEMA, names.sync_trigger_function(what, schema, table))
        )
        for what in ("ver", *OPERATIONS, "fetch", "gen", "back", "store")
    ]
    row_type = sql.Identifier(names.SCHEMA, names.sync_row_type("back", schema, table))
    return [
        *(text.as_string(None) for text in functions),
        sql.SQL("drop type if exists {}").format(row_type).as_string(None),
        drop_text(owner, schema, table),
    ]
