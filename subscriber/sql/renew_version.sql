-- msrepl.renew_version: a row inserted into a table that may hold has a version that no other row had.
-- called by: BEFORE INSERT row trigger of those tables
-- tables:    the row in hand only
-- holes:     owner
--
-- An INSERT may bring the version of a row that the same statement deletes; what is held then could not be
-- told apart (send_held).
create or replace function msrepl.renew_version() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    new.msrepl_tran_version := gen_random_uuid();
    return new;
end
$msrepl$;
alter function msrepl.renew_version() owner to {owner};
revoke all on function msrepl.renew_version() from public;
comment on function msrepl.renew_version() is 'Gives an inserted row a version of its own';
