-- msrepl_call.open_bracket: judges a call of a published routine, and marks where it begins.
-- called by: msrepl_call.run_<n>, by assignment: PERFORM would add a line to the context
-- tables:    msrepl.sysprocarticles, msrepl.branch_marker, msrepl.call_marker
-- holes:     owner
--
-- Returns the number of the call marker; NULL: the call travels as rows. Every role may execute this function,
-- but it answers only the runner: the second line of the context names the caller, in one language, and with its
-- schema unless that was in the search_path when the runner was compiled. A session may have every name quoted.
--
-- The lock is shared by calls of the routine and keeps DDL on it waiting until the caller's transaction has
-- ended. The row is read only after it is taken, so a definition and the calls that ran it are in the log in
-- the same order. Any role can take this lock: a holder is waited for only if it may change the row; otherwise
-- the call travels as rows, which need no order.
create or replace function msrepl_call.open_bracket(article integer, call text) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lc_messages = 'C'
as $msrepl$
declare
    stack text;
    caller text;
    known msrepl.sysprocarticles;
    reason text;
    stranger text;
    opened bigint;
begin
    get diagnostics stack = pg_context;
    caller := split_part(stack, E'\n', 2);
    if starts_with(caller, 'PL/pgSQL function msrepl_call.run_' || article || '(') is not true
        and starts_with(caller, 'PL/pgSQL function "msrepl_call"."run_' || article || '"(') is not true
    then
        raise exception 'only msrepl_call.run_% opens a bracket', article
            using errcode = 'insufficient_privilege',
                  hint = 'Call the published routine itself, in a session whose search_path never had msrepl_call.';
    end if;
    if pg_is_in_recovery() or current_setting('transaction_read_only')::boolean then
        raise debug 'call of routine % travels as rows: read_only', article;
        return null;
    end if;
    if not pg_try_advisory_xact_lock_shared(1836282470, article) then
        select format('pid %s of role %s', l.pid, a.usename) into stranger
        from pg_locks as l join pg_stat_activity as a on a.pid = l.pid
        where l.locktype = 'advisory' and l.granted and l.mode = 'ExclusiveLock'
          and l.classid = 1836282470 and l.objid = article::oid and l.objsubid = 2
          and l.database = (select d.oid from pg_database as d where d.datname = current_database())
          and not has_table_privilege(a.usesysid, 'msrepl.sysprocarticles', 'update');
        if found then
            raise warning 'calls of routine % travel as rows: % holds the advisory lock (1836282470, %)', article, stranger, article;
            return null;
        end if;
        perform pg_advisory_xact_lock_shared(1836282470, article);
    end if;
    select a.* into known from msrepl.sysprocarticles as a where a.article_id = article;
    if known.called is not true then
        reason := 'nobody';
    elsif current_setting('transaction_isolation')
        <> all (case known.type when 'serializable proc exec' then array['serializable']
                else array['read committed', 'repeatable read', 'serializable'] end)
    then
        reason := 'isolation';
    elsif current_setting('session_replication_role') <> 'origin' then
        reason := 'replica';
    elsif known.obstacle is not null then
        reason := 'obstacle';
    elsif pg_my_temp_schema() <> 0
        and exists (select from pg_class as c where c.relnamespace = pg_my_temp_schema())
    then
        reason := 'temporary';
    elsif pg_current_xact_id_if_assigned() is not null
        and exists (select from msrepl.branch_marker as m
                    where m.xid = pg_current_xact_id_if_assigned() and not m.fence)
    then
        reason := 'branch';
    end if;
    if reason is not null then
        raise debug 'call of routine % travels as rows: %', article, reason;
        return null;
    end if;
    insert into msrepl.call_marker as m (article_id, snapshot, call)
    values (article, pg_current_snapshot()::text, call)
    returning m.id into opened;
    return opened;
end
$msrepl$;
alter function msrepl_call.open_bracket(integer, text) owner to {owner};
revoke all on function msrepl_call.open_bracket(integer, text) from public;
grant execute on function msrepl_call.open_bracket(integer, text) to public;
comment on function msrepl_call.open_bracket(integer, text) is 'Judges a call of a published routine, and marks where it begins';
