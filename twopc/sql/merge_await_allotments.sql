-- msrepl.merge_await_allotments: waits until every range that was allotted here is visible.
-- called by: msmerge_idc_<artid>, in an application's transaction
-- tables:    msrepl.msmerge_allotting, msrepl.msmerge_identity_range
-- holes:     owner
--
-- A range that was allotted after the snapshot of a transaction at REPEATABLE READ or SERIALIZABLE never becomes
-- visible there: such a transaction must begin again (40001). The lock is released with its subtransaction, so that no
-- allotment waits for an application.
create or replace function msrepl.merge_await_allotments() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    last xid8;
begin
    loop
        last := pg_sequence_last_value('msrepl.msmerge_allotting')::text::xid8;
        exit when last is null or last = pg_current_xact_id_if_assigned()
            or pg_visible_in_snapshot(last, pg_current_snapshot());
        if current_setting('transaction_isolation') <> 'read committed' then
            raise exception 'identity values were allotted to a Subscriber since this transaction began'
                using errcode = 'serialization_failure', hint = 'Begin the transaction again.';
        end if;
        begin
            lock table msrepl.msmerge_identity_range in row exclusive mode;
            raise sqlstate 'MR000';
        exception when sqlstate 'MR000' then
            null;
        end;
    end loop;
end
$msrepl$;
alter function msrepl.merge_await_allotments() owner to {owner};
revoke all on function msrepl.merge_await_allotments() from public;
comment on function msrepl.merge_await_allotments() is 'Waits until every range that was allotted can be seen';
