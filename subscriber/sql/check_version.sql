-- Checks that a subscribed table has the row version.
-- called by: twopc.subscriber.subscription, the script of a subscription
-- tables:    catalogs
-- holes:     table, table_name
do $msrepl$
begin
    if to_regclass({table}) is null then
        raise exception 'table % does not exist in database "%"', {table_name}, current_database()
            using errcode = 'object_not_in_prerequisite_state', hint = 'Create it with its rows first.';
    elsif not exists (
        select from pg_attribute as a
        where a.attrelid = to_regclass({table}) and a.attname = 'msrepl_tran_version' and not a.attisdropped
          and a.atttypid = 'uuid'::regtype and a.attnotnull
    ) then
        raise exception 'table % has no column msrepl_tran_version uuid NOT NULL (21080)', {table_name}
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Copy the table from the Publisher together with its row versions.';
    end if;
end
$msrepl$;
