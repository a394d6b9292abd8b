-- msrepl.raise_refused: turns an error of the server's own into a refusal with its facts.
-- called by: sync procedures
-- tables:    none
-- holes:     owner
create or replace function msrepl.raise_refused(
    state text, message text, detail text, violated text, article text, key jsonb
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if state = '23503' then
        perform msrepl.raise_conflict('fk_violation', state, 20515, article, key, null, null, null,
                                      message || coalesce(' (' || detail || ')', ''), array[violated]);
    end if;
    perform msrepl.raise_conflict('lock_timeout', state, 0, article, key, null, null, null,
        format('rows of %s are locked at the Publisher by another transaction: gave up after %s',
               article, current_setting('lock_timeout')));
end
$msrepl$;
alter function msrepl.raise_refused(text, text, text, text, text, jsonb) owner to {owner};
revoke all on function msrepl.raise_refused(text, text, text, text, text, jsonb) from public;
comment on function msrepl.raise_refused(text, text, text, text, text, jsonb) is 'Turns an error of the server into a refusal with its facts';
