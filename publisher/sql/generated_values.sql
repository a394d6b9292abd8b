-- sp_mssync_gen_<table>: a block of values that only the Publisher can make (identity, sequences).
-- called by: the BEFORE INSERT trigger of a Subscriber, over its link
-- tables:    sequences of the published table
-- holes:     function, values, owner, comment
--
-- One round trip fetches values for many rows; INSERT … RETURNING at the Subscriber then shows them, and
-- the rows still travel in the statement's one call. A block that is not used up leaves a gap.
create or replace function {function}(rows integer) returns jsonb
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
    select jsonb_agg(jsonb_build_array({values})) from generate_series(1, $1)
$msrepl$;
alter function {function}(integer) owner to {owner};
revoke all on function {function}(integer) from public;
comment on function {function}(integer) is {comment};
