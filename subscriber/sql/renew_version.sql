-- msrepl.renew_version, msrepl.renew_version_unless_moved: give an inserted row a version that no row has had.
-- called by: BEFORE INSERT row trigger of every subscribed table; of a partitioned one, the second
-- tables:    none but the trigger's row
-- holes:     owner, function, kept, comment
--
-- The version that the statement sets is ignored: with that of a deleted row, copies of that row at other
-- sites would pass the check, and held rows could not be distinguished (send_held). A row that an UPDATE
-- moves to another partition is inserted there, and keeps the version given by trg_mssync_ver_<table>: that
-- one is sealed with the transaction in which it was made, so that no older version can be taken for it.
create or replace function {function}() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    {kept}new.msrepl_tran_version := gen_random_uuid();
    return new;
end
$msrepl$;
alter function {function}() owner to {owner};
revoke all on function {function}() from public;
comment on function {function}() is {comment};
