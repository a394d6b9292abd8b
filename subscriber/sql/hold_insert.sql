-- fragment: holds inserted rows while other statements are open.
-- called by: rendered into capture_rows of tables that may hold rows
-- tables:    transition table inserted; msrepl.held_row
-- holes:     place, relation, new_key, new_columns, note
    sync.place := {place};
    if sync.place > 0 then
        insert into msrepl.held_row as h (xid, place, relid, new_links, new_rows)
        select pg_current_xact_id(), sync.place, {relation}::regclass,
               array_agg(md5({relation} || row({new_key})::text)::uuid), array_agg(row({new_columns})::text)
        from inserted as n
        having count(*) > 0
        returning h.ctid into sync.marker;
        {note}
        return null;
    end if;
