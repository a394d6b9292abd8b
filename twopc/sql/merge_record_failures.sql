-- msrepl.merge_record_failures: records changes of a neighbour that were rejected here, or could not be decided.
-- called by: merge agents, in the transaction that would have applied them
-- tables:    see msrepl.merge_record_failure
-- holes:     owner
create or replace function msrepl.merge_record_failures(
    artid uuid, guids uuid[], gones boolean[], rows text[], codes text[], reasons text[], is_pending boolean
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    perform msrepl.merge_record_failure($1, f.guid, f.is_gone, f."row", f.code, f.reason, $7)
    from unnest($2, $3, $4, $5, $6) as f(guid, is_gone, "row", code, reason);
end
$msrepl$;
alter function msrepl.merge_record_failures(uuid, uuid[], boolean[], text[], text[], text[], boolean) owner to {owner};
revoke all on function msrepl.merge_record_failures(uuid, uuid[], boolean[], text[], text[], text[], boolean) from public;
comment on function msrepl.merge_record_failures(uuid, uuid[], boolean[], text[], text[], text[], boolean)
    is 'Records changes that were not applied';
