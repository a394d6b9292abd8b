-- mssync_make_<table>: makes values that only the Publisher can make (identity, sequences).
-- called by: sp_mssync_gen_<table>
-- tables:    sequences of the published table
-- holes:     function, runs_as, values, owner, caller, comment
create or replace function {function}(rows integer) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
{runs_as}    return (select jsonb_agg(jsonb_build_array({values})) from generate_series(1, $1));
end
$msrepl$;
alter function {function}(integer) owner to {owner};
revoke all on function {function}(integer) from public;
grant execute on function {function}(integer) to {caller};
comment on function {function}(integer) is {comment};
