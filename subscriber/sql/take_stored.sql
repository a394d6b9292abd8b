-- fragment: writes back what the Publisher stored differently from how it was sent.
-- called by: rendered into ship for tables whose rows are written back
-- tables:    none here; see write_back
-- holes:     key, write_back

    if jsonb_array_length(nullif(sync.stored, '')::jsonb -> {key}) > 0 then
        perform {write_back}(sync.stored::jsonb -> {key});
    end if;
