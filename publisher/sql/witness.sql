-- msrepl.witness: records or refuses what triggers change in published rows while a Subscriber's change is applied.
-- called by: AFTER ROW triggers of published tables, for rows that another trigger changes
-- tables:    msrepl.branch_marker, msrepl.touched_row
-- holes:     owner
--
-- Arguments: the article, then the key's columns. A change of a row that the Subscriber has just sent is
-- returned to it with the answer (stored_rows), where it is checked that the row was sent. Any other
-- change is refused. Transactions that no Subscriber began are ignored.
create or replace function msrepl.witness() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    stack text;
    called text;
    cause text;
    held jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
    changed jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
    key jsonb;
    place tid;
begin
    if not exists (select from msrepl.branch_marker as m where m.xid = pg_current_xact_id()) then
        return null;
    end if;
    select jsonb_object_agg(k, coalesce(held, changed) -> k) into key from unnest(tg_argv[1:]) as k;
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
    if tg_op = 'UPDATE' and current_setting('msrepl.syncing', true) = tg_argv[0]
        and (select bool_and(held -> k = changed -> k) from unnest(tg_argv[1:]) as k)
    then
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
