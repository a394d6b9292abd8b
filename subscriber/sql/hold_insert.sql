-- fragment: holds inserted rows while other statements are open.
-- called by: rendered into capture_insert of tables that may hold
-- tables:    transition table inserted; msrepl.held_row
-- holes:     place, relation, new_key, new_columns, release
    sync.place := {place};
    if sync.place > 0 then
        insert into msrepl.held_row (xid, place, relid, new_link, new_row)
        select pg_current_xact_id(), sync.place, {relation}::regclass,
               md5({relation} || row({new_key})::text)::uuid, row({new_columns})::text
        from inserted as n;
        {release}
        return null;
    end if;
