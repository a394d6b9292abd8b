-- msmerge_write_<artid>: writes rows of an article, in the name of the table's role.
-- called by: msmerge_take_<artid>
-- tables:    the article's table
-- holes:     function, runs_as, table, table_text, table_name, rowguid, row_type, attributes, assignments, values,
--            columns, column_count, identity_differs, owner, caller, comment
--
-- takens says which columns of an update are set, NULL: all. Rows are found one by one by their index: any other join
-- reads the whole table for each slice. Rows that exchange values of a unique key would violate it one after the
-- other: they are deleted, and inserted again, in one statement, so that foreign keys see them as updated; likewise
-- rows with another value of a GENERATED ALWAYS identity, which no UPDATE can set. A table with columns that are not
-- replicated would lose their values: there such rows fail.
create or replace function {function}(
    gone uuid[], guids uuid[], rows text[], takens text[], new_guids uuid[], new_rows text[]
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off
as $msrepl$
#variable_conflict use_column
declare
    written bigint;
    count bigint;
    is_whole boolean;
    is_replaced boolean;
begin
{runs_as}
    is_whole := {column_count} = (
        select count(*) from pg_attribute as a
        where a.attrelid = {table_text}::regclass and a.attnum > 0 and not a.attisdropped and a.attgenerated = '');
    is_replaced := {identity_differs};
    delete from {table} as t where t.{rowguid} operator(pg_catalog.=) any ($1);
    get diagnostics count = row_count;
    written := count;
    if not is_replaced then
        begin
            update {table} as t
            set {assignments}
            from unnest($2, $3::{row_type}[], $4) as w(guid, {attributes}, taken)
            where t.{rowguid} operator(pg_catalog.=) w.guid;
            get diagnostics count = row_count;
        exception
            when unique_violation or exclusion_violation then
                if not is_whole then
                    raise;
                end if;
                is_replaced := true;
        end;
    elsif not is_whole then
        raise exception 'a row of % has another identity value, and columns that do not travel', {table_name}
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    if is_replaced then
        with removed as (
            delete from {table} as t where t.{rowguid} operator(pg_catalog.=) any ($2) returning t.*
        ), complete as materialized (select count(*) as count from removed)  -- before the first is inserted
        insert into {table} ({rowguid}, {columns}) overriding system value
        select t.{rowguid}, {values}
        from complete as c cross join removed as t
        join unnest($2, $3::{row_type}[], $4) as w(guid, {attributes}, taken)
            on t.{rowguid} operator(pg_catalog.=) w.guid
        where c.count > 0;
        get diagnostics count = row_count;
    end if;
    written := written + count;
    insert into {table} ({rowguid}, {columns}) overriding system value
    select w.* from unnest($5, $6::{row_type}[]) as w;
    get diagnostics count = row_count;
    written := written + count;
    if written <> cardinality($1) + cardinality($2) + cardinality($5) then
        raise exception '% rows of % were to be written, and % were', cardinality($1) + cardinality($2) + cardinality($5),
            {table_name}, written
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'No trigger that is enabled ALWAYS or REPLICA may keep an agent from writing a row.';
    end if;
end
$msrepl$;
alter function {function}(uuid[], uuid[], text[], text[], uuid[], text[]) owner to {owner};
revoke all on function {function}(uuid[], uuid[], text[], text[], uuid[], text[]) from public;
grant execute on function {function}(uuid[], uuid[], text[], text[], uuid[], text[]) to {caller};
comment on function {function}(uuid[], uuid[], text[], text[], uuid[], text[]) is {comment};
