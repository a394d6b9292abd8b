-- msmerge_belongs_<artid>: the partitions to which rows of an article belong, even if its filters fail for a row.
-- called by: msmerge_map_<artid>; twopc.drivers.merge.partitions
-- tables:    none
-- holes:     function, filter, path_is_kept, owner, comment
--
-- The rows named, NULL: all. If the evaluation of all of them fails, each row is evaluated individually: a row for
-- which a filter fails belongs to no partition, and failure says why; it never stops a session. Errors that the row
-- does not cause are raised to the caller.
create or replace function {function}(guids uuid[], partitions integer[])
returns table (rowguid uuid, partition_id integer, failure text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    each uuid;
begin
    begin
        return query select f.rowguid, f.partition_id, null::text from {filter}($1, $2) as f;
{path_is_kept}
        return;
    exception
        when transaction_rollback or lock_not_available or insufficient_resources or insufficient_privilege
            or operator_intervention or system_error or internal_error then
            raise;
        when others or assert_failure then
            null;
    end;
    for each in select f.rowguid from {filter}($1, null) as f loop
        begin
            return query select f.rowguid, f.partition_id, null::text from {filter}(array[each], $2) as f;
{path_is_kept}
        exception
            when transaction_rollback or lock_not_available or insufficient_resources or insufficient_privilege
                or operator_intervention or system_error or internal_error then
                raise;
            when others or assert_failure then
                rowguid := each;
                partition_id := null;
                failure := sqlerrm;
                return next;
        end;
    end loop;
end
$msrepl$;
alter function {function}(uuid[], integer[]) owner to {owner};
revoke all on function {function}(uuid[], integer[]) from public;
comment on function {function}(uuid[], integer[]) is {comment};
