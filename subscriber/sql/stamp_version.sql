-- trg_mssync_ver_<table>: gives an updated row its new version.
-- called by: BEFORE UPDATE row trigger of the subscribed table
-- tables:    the row in hand only
-- holes:     function, guard, salt, seal, owner, comment
--
-- "The uniqueidentifier value (generated at the Subscriber)" (seed 002). Derived from the old one and the
-- transaction: unlike any other transaction's, and to be recomputed when old and new rows are paired. The
-- transaction is told from others by its begin and its session, and not by its name, which is a setting: changed
-- between two rows of a statement, it would have them paired wrongly.
--
-- Of a partitioned table, the second half is made of the first and the transaction: see renew_version.
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
