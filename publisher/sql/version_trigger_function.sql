-- msrepl.sp_mssync_upd_trig: renews the row version when the statement itself did not set it.
-- called by: BEFORE UPDATE row trigger of every published table
-- tables:    the row in hand only
-- holes:     owner
--
-- "An update trigger at the Publisher updates the MSrepl_tran_version column for the updated rows when
-- needed" (seed 002). A sync procedure brings the Subscriber's version along, so it stands aside there.
-- The test is in the body: a WHEN clause would be parsed for every statement.
create or replace function msrepl.sp_mssync_upd_trig() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if new.msrepl_tran_version = old.msrepl_tran_version then
        new.msrepl_tran_version := gen_random_uuid();
    end if;
    return new;
end
$msrepl$;
alter function msrepl.sp_mssync_upd_trig() owner to {owner};
revoke all on function msrepl.sp_mssync_upd_trig() from public;
comment on function msrepl.sp_mssync_upd_trig() is 'Renews the row version unless the statement set it';
