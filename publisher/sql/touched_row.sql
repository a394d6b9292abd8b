-- msrepl.touched_row: rows of the table being synchronised that a trigger has changed again.
-- called by: witness, check_touched
-- tables:    itself
-- holes:     owner
--
-- A row exists no longer than the call of the sync procedure in which it was inserted; the table is
-- logged all the same, see docs/crashes.md. The setting msrepl.touched says where the rows are: an index
-- or a scan would make unrelated transactions conflict under SERIALIZABLE.
set local role {owner};
create table if not exists msrepl.touched_row (
    xid xid8 not null,
    key jsonb not null,
    cause text not null
);
do $msrepl$
begin
    -- a table of an earlier version
    if (select relpersistence = 'u' from pg_catalog.pg_class where oid = 'msrepl.touched_row'::pg_catalog.regclass) then
        alter table msrepl.touched_row set logged;
    end if;
end
$msrepl$;
revoke all on msrepl.touched_row from public;
comment on table msrepl.touched_row is 'Rows of the table being synchronised that a trigger has changed again';
reset role;
