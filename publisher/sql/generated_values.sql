-- sp_mssync_gen_<table>: a block of values that only the Publisher can make (identity, sequences).
-- called by: the BEFORE INSERT trigger of a Subscriber, over its link
-- tables:    none here; see mssync_make_<table>
-- holes:     function, make, path_is_kept, owner, comment
--
-- One round trip fetches values for many rows, so INSERT … RETURNING at the Subscriber shows them, and
-- the rows still travel in the statement's single call. A block that is not used up leaves a gap.
create or replace function {function}(rows integer) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    made jsonb;
begin
    made := {make}($1);
{path_is_kept}    return made;
end
$msrepl$;
alter function {function}(integer) owner to {owner};
revoke all on function {function}(integer) from public;
comment on function {function}(integer) is {comment};
