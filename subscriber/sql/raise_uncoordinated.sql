-- msrepl.raise_uncoordinated: a change outside a global transaction is refused.
-- called by: capture triggers
-- tables:    none
-- holes:     owner
create or replace function msrepl.raise_uncoordinated(table_name text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    raise exception 'table % has an immediate-updating subscription: it is changed in a global transaction only', $1
        using errcode = 'invalid_transaction_state',
              detail = json_build_object('kind', 'uncoordinated', 'number', 20512, 'article', $1)::text,
              hint = 'Use topology.transaction(...) or a session of a scenario, which begin one.';
end
$msrepl$;
alter function msrepl.raise_uncoordinated(text) owner to {owner};
revoke all on function msrepl.raise_uncoordinated(text) from public;
comment on function msrepl.raise_uncoordinated(text) is 'Refuses a change outside a global transaction';
