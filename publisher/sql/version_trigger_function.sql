-- msrepl.sp_mssync_upd_trig: gives a row a version that no row has had, whatever its writer sets.
-- called by: BEFORE INSERT OR UPDATE row trigger of every published table
-- tables:    none but the trigger's row
-- holes:     owner, owner_name, salt
--
-- "An update trigger at the Publisher updates the MSrepl_tran_version column for the updated rows when needed" (seed
-- 002). A sync procedure sets the Subscriber's version, so the trigger keeps it: for statements in the role of the
-- table (the first argument) or in the owner's, which no session can take, and not for statements of triggers that
-- these fire. It does not keep it if the table has BEFORE triggers of users, as a second argument says: they might
-- replace the version that was sent by any other. The row then gets a version derived from the one that was sent and
-- from the transaction, by which the sync procedure still recognises it, and goes back to the Subscriber. (Under the
-- replica role, the owner's role restores rows as they were: twopc.sim.topology.checkpoint.) The test is in the
-- body: a WHEN clause would be parsed for every statement.
create or replace function msrepl.sp_mssync_upd_trig() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if current_user not in (tg_argv[0], {owner_name}) or pg_trigger_depth() > 1
        or new.msrepl_tran_version = old.msrepl_tran_version
    then
        new.msrepl_tran_version := gen_random_uuid();
    elsif tg_nargs > 1 and current_setting('session_replication_role') <> 'replica' then
        new.msrepl_tran_version := md5(new.msrepl_tran_version::text || {salt})::uuid;
    end if;
    return new;
end
$msrepl$;
alter function msrepl.sp_mssync_upd_trig() owner to {owner};
revoke all on function msrepl.sp_mssync_upd_trig() from public;
comment on function msrepl.sp_mssync_upd_trig() is 'Gives a row a version of its own unless a Subscriber has sent one';
