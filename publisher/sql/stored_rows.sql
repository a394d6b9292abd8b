-- fragment: adds rows that were stored differently from how they were sent to those that the Subscriber fetches.
-- called by: rendered into sp_mssync_ins_<table> and sp_mssync_upd_<table> of tables with triggers or
--            generated columns
-- tables:    the published table; msrepl.touched_row
-- holes:     condition, held, rows, table, match, differs, key_json, key, article
    if {condition} then
        declare
            there integer;
            stored text[];
            others jsonb;
        begin
            select count(*), array_agg(row({held})::text) filter (where {differs}) into there, stored
            from {rows} join {table} as t on {match};
            if there <> sent then
                perform msrepl.raise_conflict(
                    'triggered_change', '09000', 20515, {article}, null, null, null, null,
                    format('a trigger of the Publisher gave %s of %s rows of %s another key, or deleted them',
                           sent - there, sent, {article}));
            end if;
            perform msrepl.check_touched({article}, array(select {key_json} from {rows}));
            perform set_config('msrepl.syncing', '', true);
            others := coalesce(nullif(current_setting('msrepl.stored', true), ''), '{{}}')::jsonb;
            perform set_config('msrepl.stored', jsonb_set(others, array[{key}],
                coalesce(others -> {key}, '[]') || to_jsonb(coalesce(stored, array[]::text[])))::text, true);
        end;
    end if;
