-- msmerge_guard_<artid>: refuses changes that would leave a row outside the Subscriber's partition.
-- called by: every INSERT or UPDATE of the table at a Subscriber
-- tables:    the article's table and those of its parents
-- holes:     function, runs_as, rows, table_name, insert_trigger, update_trigger, table, owner, comment
--
-- Changes of an agent are accepted. A parent that is not here is in another partition.
create or replace function {function}() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO' set intervalstyle = 'postgres'
as $msrepl$
#variable_conflict use_column
begin
{runs_as}
    if pg_trigger_depth() = 1 and current_setting('session_replication_role') = 'replica' then
        return null;
    end if;
    if exists (
{rows}
    ) then
        raise exception 'a row of % would be outside the partition of this Subscriber (%)', {table_name},
                case tg_op when 'INSERT' then 20703 else 20733 end
            using errcode = 'with_check_option_violation',
                  hint = 'Make the change at the Publisher, from where the row goes to whom it belongs.';
    end if;
    return null;
end
$msrepl$;
alter function {function}() owner to {owner};
revoke all on function {function}() from public;
comment on function {function}() is {comment};
create trigger {insert_trigger}
    after insert on {table}
    referencing new table as inserted
    for each statement execute function {function}();
create trigger {update_trigger}
    after update on {table}
    referencing new table as inserted
    for each statement execute function {function}();
alter table {table} enable always trigger {insert_trigger}, enable always trigger {update_trigger};
