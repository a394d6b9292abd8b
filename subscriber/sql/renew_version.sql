-- msrepl.renew_version, msrepl.renew_version_unless_moved: an inserted row has a version that no row has had.
-- called by: BEFORE INSERT row trigger of every subscribed table; of a partitioned one, the second
-- tables:    the row in hand only
-- holes:     owner, function, kept, comment
--
-- Whatever the statement says: with the version of a row that was deleted, copies of that row at other sites
-- would pass the check; and what is held could not be told apart (send_held). A row that an UPDATE moves to
-- another partition is inserted there, and keeps what it was stamped with (trg_mssync_ver_<table>): that is
-- sealed with the transaction it was made in, so that no older version can be taken for it.
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
