-- fragment: holds deleted rows while other statements are open.
-- called by: rendered into capture_delete of tables that may hold
-- tables:    transition table deleted; msrepl.held_row
-- holes:     place, relation, old_key, old_columns, release
    sync.place := {place};
    if sync.place > 0 then
        insert into msrepl.held_row (xid, place, relid, old_link, old_row)
        select pg_current_xact_id(), sync.place, {relation}::regclass,
               md5({relation} || row({old_key})::text)::uuid, row({old_columns})::text
        from deleted as o;
        {release}
        return null;
    end if;
