-- msrepl.drain_link: after a message that was cancelled or has failed, stops the statement at the Publisher and
-- empties the link; reports a deadlock across servers to its victim.
-- called by: functions that send over the link
-- tables:    pg_locks, pg_stat_activity
-- holes:     owner, link
--
-- A cancel is not passed on: the statement would continue at the Publisher, and the link would answer "another
-- command is already in progress". The wait is bounded, because the cancel that led here does not come twice: half
-- a second for a Publisher that takes the cancel but whose backend does not react, 30 s (dblink's own limit) for
-- one that does not answer at all. Then the link is dropped, and with it the transaction at its other end.
--
-- The process that breaks a deadlock holds an advisory lock during that and for a while after it: (1836282473, a
-- hash of this transaction's start and pid). The lock shows why a statement was cancelled, and says nothing about
-- other failures. Any role can take it; only holders that may settle branches count.
drop function if exists msrepl.drain_link();
create or replace function msrepl.drain_link(was_cancelled boolean default true) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set client_min_messages = error
as $msrepl$
declare
    was_empty boolean := false;
    is_empty boolean := false;
begin
    begin
        perform msrepl_link.dblink_cancel_query({link});
        for turn in 1 .. 50 loop
            if msrepl_link.dblink_is_busy({link}) = 1 then
                perform pg_sleep(0.01);
            else
                -- an error also counts as no row, so only a second empty answer shows that nothing is left
                is_empty := not exists (select from msrepl_link.dblink_get_result({link}, false) as t(tag text));
                exit when is_empty and was_empty;
                was_empty := is_empty;
            end if;
        end loop;
        if not (is_empty and was_empty) then
            perform msrepl_link.dblink_disconnect({link});
        end if;
    exception when others then
        -- the link is lost altogether: the next message opens it
        if {link} = any (msrepl_link.dblink_get_connections()) then
            perform msrepl_link.dblink_disconnect({link});
        end if;
    end;
    if not was_cancelled then
        return;
    end if;
    perform pg_stat_clear_snapshot();
    if exists (
        select from pg_locks as l join pg_stat_activity as a on a.pid = l.pid
        where l.locktype = 'advisory' and l.granted
          and l.classid = 1836282473 and l.objsubid = 2
          and l.objid = (hashfloat8(extract(epoch from now())::float8) # pg_backend_pid())::oid
          and l.database = (select d.oid from pg_database as d where d.datname = current_database())
          and has_function_privilege(a.usesysid, to_regprocedure('msrepl.fence_branch(text, text[])'), 'execute')
    ) then
        raise exception 'deadlock across servers: this transaction was chosen to be rolled back'
            using errcode = 'deadlock_detected',
                  detail = json_build_object('kind', 'deadlock', 'number', 0)::text,
                  hint = 'Nothing is committed at either site: roll back and try again.';
    end if;
end
$msrepl$;
alter function msrepl.drain_link(boolean) owner to {owner};
revoke all on function msrepl.drain_link(boolean) from public;
comment on function msrepl.drain_link(boolean) is 'Stops what runs over the link and empties it';
