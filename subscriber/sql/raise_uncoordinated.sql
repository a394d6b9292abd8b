-- msrepl.raise_uncoordinated: refuses a change that belongs to no global transaction, or no longer does.
-- called by: capture triggers, name_transaction, begin_any_client
-- tables:    msrepl.branch_marker
-- holes:     owner
create or replace function msrepl.raise_uncoordinated(table_name text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    facts constant text := json_build_object('kind', 'uncoordinated', 'number', 20512, 'article', $1)::text;
begin
    if exists (select from msrepl.branch_marker as m where m.xid = pg_current_xact_id_if_assigned()) then
        raise exception 'table % was changed after this transaction was prepared at the Publisher, or after its settings msrepl.* were changed', $1
            using errcode = 'invalid_transaction_state',
                  detail = facts,
                  hint = 'Roll back and try again. RESET ALL has no place in a global transaction, and deferred triggers that change replicated tables must fire before its end: SET CONSTRAINTS ALL IMMEDIATE.';
    end if;
    raise exception 'table % has an immediate-updating subscription: it is changed in a global transaction only', $1
        using errcode = 'invalid_transaction_state',
              detail = facts,
              hint = 'Use topology.transaction(...) or a session of a scenario, which begin one; or let any client write here: `twopc any-client on`.';
end
$msrepl$;
alter function msrepl.raise_uncoordinated(text) owner to {owner};
revoke all on function msrepl.raise_uncoordinated(text) from public;
comment on function msrepl.raise_uncoordinated(text) is 'Refuses a change outside a global transaction';
