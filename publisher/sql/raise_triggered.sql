-- msrepl.raise_triggered: refuses a change that a trigger of the Publisher made in rows that were not sent.
-- called by: witness, check_touched
-- tables:    none
-- holes:     owner
--
-- The transaction is not delivered to the Subscriber that sent the change, which would therefore never
-- see what else the transaction changed.
create or replace function msrepl.raise_triggered(article text, key jsonb, cause text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    raise exception '% of the Publisher changed another row of published table %: the Subscriber would not see it',
        cause, article
        using errcode = 'triggered_action_exception',
              detail = json_build_object('kind', 'triggered_change', 'number', 20515, 'article', article,
                                         'key', key, 'cause', cause)::text,
              hint = 'Make the change at the Publisher, or let the trigger leave published tables alone.';
end
$msrepl$;
alter function msrepl.raise_triggered(text, jsonb, text) owner to {owner};
revoke all on function msrepl.raise_triggered(text, jsonb, text) from public;
comment on function msrepl.raise_triggered(text, jsonb, text) is 'Refuses what a trigger changes in rows that were not sent';
