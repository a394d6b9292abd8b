-- fragment: holds deleted rows while other statements are open.
-- called by: rendered into capture_rows of tables that may hold rows
-- tables:    transition table deleted; msrepl.held_row
-- holes:     place, relation, old_key, old_columns, note
    sync.place := {place};
    if sync.place > 0 then
        insert into msrepl.held_row as h (xid, place, relid, old_links, old_rows)
        select pg_current_xact_id(), sync.place, {relation}::regclass,
               array_agg(md5({relation} || row({old_key})::text)::uuid), array_agg(row({old_columns})::text)
        from deleted as o
        having count(*) > 0
        returning h.ctid into sync.marker;
        {note}
        return null;
    end if;
