-- msrepl.name_transaction: returns the global transaction to which a first captured change belongs.
-- called by: capture triggers, send_held
-- tables:    msrepl.branch_marker
-- holes:     is_proven, owner
--
-- Any role may change the setting msrepl.gid and read the gids of prepared transactions, and a marker under the name of
-- another transaction would pass for that one's decision. A name therefore counts only with its coordinator's proof.
create or replace function msrepl.name_transaction(table_name text) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    gid constant text := nullif(current_setting('msrepl.gid', true), '');
begin
    if gid is null then
        return msrepl.begin_any_client($1);
    end if;
{is_proven}    if found then
        return gid;
    elsif exists (select from msrepl.branch_marker as m where m.xid = pg_current_xact_id_if_assigned()) then
        perform msrepl.raise_uncoordinated($1);
    end if;
    raise exception 'transaction % was not begun here by its coordinator', gid
        using errcode = 'insufficient_privilege',
              hint = 'Only a coordinator names a transaction, as topology.transaction(...) does: leave msrepl.gid alone.';
end
$msrepl$;
alter function msrepl.name_transaction(text) owner to {owner};
revoke all on function msrepl.name_transaction(text) from public;
comment on function msrepl.name_transaction(text) is 'The global transaction that a change belongs to';
