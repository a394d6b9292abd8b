-- fragment: holds updated rows, old and new, while other statements are open.
-- called by: rendered into capture_update of tables that may hold rows
-- tables:    transition tables deleted and inserted; msrepl.held_row
-- holes:     place, relation, derived, old_key, old_columns, old_target, new_key, new_columns, new_target, note
--
-- Rows are paired as in capture_update: a new row's version was derived from its old one.
    sync.place := {place};
    if sync.place > 0 then
        insert into msrepl.held_row as h
            (xid, place, relid, old_links, new_links, old_keys, old_rows, new_rows, moved)
        select pg_current_xact_id(), sync.place, {relation}::regclass,
               array_agg(md5({relation} || paired.old_key)::uuid), array_agg(md5({relation} || paired.new_key)::uuid),
               array_agg(paired.old_key), array_agg(paired.old_row), array_agg(paired.new_row),
               array_agg(paired.old_target <> paired.new_target)
        from rows from (
            unnest((select array_agg(row({old_key})::text order by {derived}) from deleted as o)),
            unnest((select array_agg(row({old_columns})::text order by {derived}) from deleted as o)),
            unnest((select array_agg(row({old_target})::text order by {derived}) from deleted as o)),
            unnest((select array_agg(row({new_key})::text order by n.msrepl_tran_version) from inserted as n)),
            unnest((select array_agg(row({new_columns})::text order by n.msrepl_tran_version) from inserted as n)),
            unnest((select array_agg(row({new_target})::text order by n.msrepl_tran_version) from inserted as n))
        ) as paired(old_key, old_row, old_target, new_key, new_row, new_target)
        having count(*) > 0
        returning h.ctid into sync.marker;
        {note}
        return null;
    end if;
