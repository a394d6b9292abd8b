-- msmerge_idc_<artid>: refuses identity values of an application that do not belong to this node (548).
-- called by: AFTER triggers of the article's table: for each INSERT, and for each row whose value an UPDATE changes
-- tables:    transition table inserted; msrepl.msmerge_identity_range, the table's sequence at the topmost Publisher; see
--            msrepl.merge_await_allotments
-- holes:     function, table_name, column, column_text, is_foreign, whose, remedy, owner, comment
--
-- Values that an agent writes are accepted; changes of a user's trigger that fires then are at a deeper level, and are
-- refused like any others. COALESCE accepts numbers only: a column of another type that has taken the column's name would
-- be cast by code of the table's owner.
create or replace function {function}() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    value int8;
begin
    if pg_trigger_depth() = 1 and current_setting('session_replication_role') = 'replica' then
        return null;
    end if;
    perform msrepl.merge_await_allotments();
    if tg_op = 'INSERT' then
        select v.v into value from (select coalesce(i.{column}, null::int8) as v from inserted as i) as v where {is_foreign} limit 1;
    else
        select v.v into value from (select coalesce(new.{column}, null::int8) as v) as v where {is_foreign};
    end if;
    if found then
        raise exception 'value % of column % of table % is % (548)', value, {column_text}, {table_name}, {whose}
            using errcode = 'check_violation', hint = {remedy};
    end if;
    return null;
end
$msrepl$;
alter function {function}() owner to {owner};
revoke all on function {function}() from public;
comment on function {function}() is {comment};
