-- trg_mssync_store_<table>: writes rows as the Publisher stored them, in the name of the table's role.
-- called by: trg_mssync_back_<table>
-- tables:    the subscribed table
-- holes:     function, runs_as, table, table_name, row_type, attributes, assignments, match, owner, caller, comment
--
-- A row that row security or a trigger of the replica role leaves unchanged would differ from the Publisher's, so
-- the statement is refused.
create or replace function {function}(stored jsonb) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    taken bigint;
begin
{runs_as}
    update {table} as t
    set {assignments}
    from unnest(array(select jsonb_array_elements_text($1))::{row_type}[]) as r({attributes})
    where {match};
    get diagnostics taken = row_count;
    if taken <> jsonb_array_length($1) then
        raise exception 'the Publisher stored % rows of % otherwise than they were sent, and % of them could be changed here',
            jsonb_array_length($1), {table_name}, taken
            using errcode = 'object_not_in_prerequisite_state',
                  hint = format('Row security of this table must let role %s see and change all of its rows, and no trigger that is enabled ALWAYS or REPLICA may keep it from that.', current_user);
    end if;
end
$msrepl$;
alter function {function}(jsonb) owner to {owner};
revoke all on function {function}(jsonb) from public;
grant execute on function {function}(jsonb) to {caller};
comment on function {function}(jsonb) is {comment};
