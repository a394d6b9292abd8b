-- msrepl.witness: records or refuses what triggers change in published rows while a Subscriber's change is applied.
-- called by: AFTER ROW triggers of published tables, for rows that another trigger changes
-- tables:    msrepl.branch_marker, msrepl.touched_row
-- holes:     owner
--
-- Arguments: the article, then the key's columns. A change of a row that the Subscriber has just sent is
-- returned to it with the answer (stored_rows), where it is checked that the row was sent. Any other
-- change is refused. Transactions that no Subscriber began are ignored.
--
-- A cast of a user's type to json is its owner's function, and would run with the rights of this one. Such values are
-- therefore printed by their output function, here and in the key that the sync procedure has been sent
-- (`ChangePieces.key_json`); built-in types have OIDs below 16384.
create or replace function msrepl.witness() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    stack text;
    called text;
    cause text;
    key_of_row text;
    held jsonb;
    changed jsonb;
    key jsonb;
    place tid;
begin
    if not exists (select from msrepl.branch_marker as m where m.xid = pg_current_xact_id()) then
        return null;
    end if;
    select 'select jsonb_build_object(' || string_agg(format(
               '%1$L, case when pg_typeof(($1).%2$I)::oid < 16384 then to_jsonb(($1).%2$I) '
               'else to_jsonb(format(''%%s'', ($1).%2$I)) end', k, k), ', ') || ')'
    into key_of_row
    from unnest(tg_argv[1:]) as k;
    if tg_op <> 'INSERT' then
        execute key_of_row into held using old;
    end if;
    if tg_op <> 'DELETE' then
        execute key_of_row into changed using new;
    end if;
    key := coalesce(held, changed);
    get diagnostics stack = pg_context;
    called := substring(stack from E'PL/pgSQL function (?!msrepl\\.)(\\S+) line');
    select 'trigger ' || string_agg(
               format('%I of table %s', t.tgname, coalesce(nullif(n.nspname, 'public') || '.', '') || c.relname),
               ', ' order by t.tgname)
    into cause
    from pg_trigger as t
    join pg_proc as p on p.oid = t.tgfoid
    join pg_class as c on c.oid = t.tgrelid
    join pg_namespace as n on n.oid = c.relnamespace
    where not t.tgisinternal and t.tgparentid = 0
      and called in (p.oid::regprocedure::text, p.proname || '()', quote_ident(p.proname) || '()');
    cause := coalesce(cause, 'a trigger');
    if tg_op = 'UPDATE' and current_setting('msrepl.syncing', true) = tg_argv[0] and held = changed then
        insert into msrepl.touched_row as w (xid, key, cause) values (pg_current_xact_id(), key, cause)
        returning w.ctid into place;
        perform set_config('msrepl.touched',
            concat_ws(' ', nullif(current_setting('msrepl.touched', true), ''), place), true);
    else
        perform msrepl.raise_triggered(tg_argv[0], key, cause);
    end if;
    return null;
end
$msrepl$;
alter function msrepl.witness() owner to {owner};
revoke all on function msrepl.witness() from public;
comment on function msrepl.witness() is 'Sees what triggers change in published rows while a Subscriber''s change is applied';
