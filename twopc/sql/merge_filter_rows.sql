-- msmerge_filter_<artid>: the partitions to which rows of an article belong by its filters (a view in seed 003).
-- called by: msmerge_belongs_<artid>; twopc.drivers.merge.partitions
-- tables:    the article's table and those of its parents; msrepl.msmerge_partition_groups,
--            msrepl.msmerge_current_partition_mappings
-- holes:     function, runs_as, table, rowguid, all_rows, some_rows, owner, caller, comment
--
-- The rows named, NULL: all. The partitions of parents are known already. A row belongs to a partition if its row
-- filter or one of its join filters says so. Without partitions no filter is evaluated.
create or replace function {function}(guids uuid[], partitions integer[]) returns table (rowguid uuid, partition_id integer)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO' set intervalstyle = 'postgres'
as $msrepl$
#variable_conflict use_column
begin
{runs_as}
    if $2 is null then
        return query
        select t.{rowguid}, null::integer from {table} as t where $1 is null or t.{rowguid} = any ($1);
    elsif $1 is null then
        return query
{all_rows};
    else
        return query
{some_rows};
    end if;
end
$msrepl$;
alter function {function}(uuid[], integer[]) owner to {owner};
revoke all on function {function}(uuid[], integer[]) from public;
grant execute on function {function}(uuid[], integer[]) to {caller};
comment on function {function}(uuid[], integer[]) is {comment};
