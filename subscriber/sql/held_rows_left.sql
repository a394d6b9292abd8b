-- msrepl.held_rows_left: refuses to prepare a transaction that has held rows and not sent them.
-- called by: prepare_branch
-- tables:    msrepl.held_row; statistics of the transaction
-- holes:     owner
--
-- Only a user who has changed our settings gets so far. Looking for the rows would put them under the
-- predicate locks of SERIALIZABLE, so it is done only if more were inserted than deleted.
create or replace function msrepl.held_rows_left() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if pg_stat_get_xact_tuples_inserted('msrepl.held_row'::regclass)
        <> pg_stat_get_xact_tuples_deleted('msrepl.held_row'::regclass)
        and exists (select from msrepl.held_row as h where h.xid = pg_current_xact_id_if_assigned())
    then
        raise exception 'changes of this transaction were held and not sent: its settings msrepl.* were changed'
            using errcode = 'invalid_transaction_state', hint = 'Roll back and try again.';
    end if;
end
$msrepl$;
alter function msrepl.held_rows_left() owner to {owner};
revoke all on function msrepl.held_rows_left() from public;
comment on function msrepl.held_rows_left() is 'Refuses to prepare a transaction that has not sent what it held';
