"""Code that the owner of a replicated table can attach to it, to gain privileges when another role writes to it."""

from __future__ import annotations

from collections.abc import Sequence

#: A function that attempts everything that the evaluating role must not be able to do, and records
#: each attempt unless it fails for lack of a privilege (42501).
TRAP = """
create schema evil authorization {app};
set role {app};
create table evil.reached (via text, who name, what text, how text);
create table evil.evaluated (via text, who name);
grant usage on schema evil to public;
grant all on evil.reached, evil.evaluated to public;
create function evil.try(via text) returns boolean language plpgsql as $trap$
declare
    attempt text;
    found text;
begin
    insert into evil.evaluated values (via, current_user);
    foreach attempt in array {attempts}::text[] loop
        begin
            found := 'done';
            if attempt ~ '^select' then
                execute attempt into found;
            else
                execute attempt;
            end if;
            if attempt !~ 'umoptions' or found is not null then
                insert into evil.reached values (via, current_user, attempt, found);
            end if;
        exception
            when insufficient_privilege then
                null;
            when others then
                insert into evil.reached values (via, current_user, attempt, sqlerrm);
        end;
    end loop;
    return true;
end $trap$;
create function evil.fine(via text, value anyelement) returns boolean language plpgsql immutable
    as $trap$ begin return evil.try(via); end $trap$;
create function evil.spring() returns trigger language plpgsql
    as $trap$ begin perform evil.try('trigger'); return coalesce(new, old); end $trap$;
reset role;
"""

#: Attempts at a Subscriber of `item` and `other`; the trap's owner has no privilege on `other`.
AT_SUBSCRIBER = [
    "select string_agg(umoptions::text, ' ') from pg_user_mappings where umoptions is not null",
    "select string_agg(umoptions::text, ' ') from pg_user_mapping",
    "select msrepl_link.dblink_exec('msrepl', 'select 1')",
    "select msrepl_link.dblink_connect('mine', 'msrepl_publisher')",
    "select * from msrepl_link.dblink('msrepl', 'select 1') as t(a int)",
    "select msrepl.query_link('select 1')",
    "select msrepl.flush()",
    "select * from public.other",
    "update public.other set n = n",
    "insert into public.other values (666, 666)",
    "delete from public.other",
    "select count(*) from msrepl.branch_marker",
    "select count(*) from msrepl.msreplication_subscriptions",
    "update msrepl.mssubscription_agents set status = status",
    "delete from msrepl.msreplication_procedures",
    "select msrepl.apply_1_del('{1}')",
    "select msrepl.set_1_del('{}')",
    "set session_replication_role = origin",
    "create table msrepl.mine (n int)",
    "create or replace function msrepl.flush() returns void language sql as 'select'",
]


def trap(app: str, attempts: Sequence[str]) -> str:
    """Return the statements that create the trap's functions, owned by `app`."""
    listed = ", ".join(f"$attempt${attempt}$attempt$" for attempt in attempts)
    return TRAP.format(app=f'"{app}"', attempts=f"array[{listed}]")


def sabotage(doing: str) -> str:
    """Return a replacement of the trap's function, which executes `doing` if a table's role evaluates it."""
    return f"""
        create or replace function evil.try(via text) returns boolean language plpgsql as $trap$
        declare
            attempt text;
        begin
            insert into evil.evaluated values (via, current_user);
            if current_user ~ '^msrepl_table_' then {doing} end if;
            return true;
        end $trap$
    """


#: The same names at the other end, without effect, because types must be the same at both ends.
HARMLESS = """
create schema evil;
grant usage on schema evil to public;
create function evil.fine(via text, value anyelement) returns boolean language sql immutable as 'select true';
"""
DOMAIN = "create domain evil.amount as int check (evil.fine('domain', value))"
TABLE = """
create table item (
    id int primary key, name text, amount evil.amount, made int {generated},
    {own}
    check (evil.fine('check', id))
)
"""
#: Columns that only the Subscriber has.
OWN = """
    own boolean default evil.fine('default', 1),
    worked_out boolean generated always as (evil.fine('generated', id)) stored,
"""

#: Attempts at a Publisher of `item` and `other`; the trap's owner has no privilege on `other`.
AT_PUBLISHER = [
    "select * from public.other",
    "update public.other set n = n",
    "insert into public.other values (666, 666)",
    "delete from public.other",
    "insert into msrepl.branch_marker (gid, xid, participants, originator)"
    " values ('twopc:x:1:1:pub', pg_current_xact_id(), '{}', 'x')",
    "select count(*) from msrepl.branch_marker",
    "delete from msrepl.sysarticles",
    "select msrepl.filter_rows(1, '{}')",
    "select msrepl.forget_calls()",
    "call msrepl.sp_mssync_del_other(null, null, null, '{}')",
    "create table msrepl.mine (n int)",
    "create or replace function msrepl.raise_stale() returns void language sql as 'select'",
]
