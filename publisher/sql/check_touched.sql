-- msrepl.check_touched: refuses a change if a trigger changed rows of the same table that were not sent.
-- called by: sp_mssync_ins_<table>, sp_mssync_upd_<table> of tables with triggers
-- tables:    msrepl.touched_row
-- holes:     owner
create or replace function msrepl.check_touched(article text, sent jsonb[]) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    touched constant tid[] :=
        string_to_array(coalesce(current_setting('msrepl.touched', true), ''), ' ')::tid[];
    other record;
begin
    if cardinality(touched) = 0 then
        return;
    end if;
    perform set_config('msrepl.touched', '', true);
    with touched as (
        delete from msrepl.touched_row as w where w.ctid = any (touched) and w.xid = pg_current_xact_id()
        returning w.key, w.cause
    )
    select t.key, t.cause into other
    from touched as t
    where t.key <> all ($2)
    limit 1;
    if found then
        perform msrepl.raise_triggered(article, other.key, other.cause);
    end if;
end
$msrepl$;
alter function msrepl.check_touched(text, jsonb[]) owner to {owner};
revoke all on function msrepl.check_touched(text, jsonb[]) from public;
comment on function msrepl.check_touched(text, jsonb[]) is 'Refuses that a trigger changed rows which were not sent';
