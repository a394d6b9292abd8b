"""What the owner of one subscribed table may put into it, to reach further when somebody else writes there."""

from __future__ import annotations

from collections.abc import Sequence

#: Tries everything that the role which evaluates it must not be able to do, and notes what it could. Only a right
#: that is missing (42501) counts as out of reach.
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

#: At a Subscriber, where `other` is subscribed too and the trap's owner has no right to it.
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
    """What makes the functions; they are `app`'s."""
    listed = ", ".join(f"$attempt${attempt}$attempt$" for attempt in attempts)
    return TRAP.format(app=f'"{app}"', attempts=f"array[{listed}]")


def sabotage(doing: str) -> str:
    """Another text for what the trap evaluates: does something where the role of a table evaluates it."""
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


#: The Publisher's names for the same, which do nothing: types must be alike at both ends.
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
#: Columns of the Subscriber's own.
OWN = """
    own boolean default evil.fine('default', 1),
    worked_out boolean generated always as (evil.fine('generated', id)) stored,
"""

#: At the Publisher, where `other` is published too and the trap's owner has no right to it.
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
