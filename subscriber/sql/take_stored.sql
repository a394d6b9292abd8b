-- fragment: writes back what the Publisher stored otherwise than it was sent.
-- called by: rendered into ship for tables that take rows back
-- tables:    none here; see write_back
-- holes:     key, write_back

    if jsonb_array_length(nullif(sync.stored, '')::jsonb -> {key}) > 0 then
        perform {write_back}(sync.stored::jsonb -> {key});
    end if;
