-- msrepl.keep_stored: only clean-up removes what is stored, and the position of a log reader only moves forward.
-- called by: its triggers on msrepl_blocks and mspublisher_databases
-- tables:    msrepl.mspublisher_databases
-- holes:     none
--
-- A log reader may delete the parts of a transaction whose last part was not stored: see msrepl.drop_parts. A role that
-- may truncate the table may remove everything.
create or replace function msrepl.keep_stored() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if has_table_privilege('msrepl.msrepl_blocks', 'truncate') then
        return coalesce(new, old);
    elsif tg_op = 'DELETE' then
        if old.last_seqno > (select d.read_to from msrepl.mspublisher_databases d
                             where d.id = old.publisher_database_id) then
            return old;
        end if;
    end if;
    raise exception using
        errcode = 'insufficient_privilege',
        message = format('what is stored stays: role %s may not take it back', current_user);
end
$msrepl$;
revoke all on function msrepl.keep_stored() from public;
comment on function msrepl.keep_stored()
    is 'Nobody but clean-up removes what is stored, and the mark of a log reader moves forward only';
create or replace trigger keep_stored before delete on msrepl.msrepl_blocks
    for each row execute function msrepl.keep_stored();
create or replace trigger keep_stored before update of read_to on msrepl.mspublisher_databases
    for each row when (new.read_to < old.read_to) execute function msrepl.keep_stored();
