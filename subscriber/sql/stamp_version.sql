-- trg_mssync_ver_<table>: gives an updated row its new version.
-- called by: BEFORE UPDATE row trigger of the subscribed table
-- tables:    none but the trigger's row
-- holes:     function, guard, salt, seal, owner, comment
--
-- "The uniqueidentifier value (generated at the Subscriber)" (seed 002). It is derived from the old version and
-- the transaction: different from any other transaction's, and computed again when old and new rows are paired.
-- The transaction is identified by its start and its session, and not by its name, which is a setting: changed
-- between two rows of a statement, it would make them be paired wrongly.
--
-- In a partitioned table, the second half is derived from the first and the transaction: see renew_version.
create or replace function {function}() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    {guard}
    new.msrepl_tran_version := md5(old.msrepl_tran_version::text || {salt})::uuid;{seal}
    return new;
end
$msrepl$;
alter function {function}() owner to {owner};
revoke all on function {function}() from public;
comment on function {function}() is {comment};
