-- msrepl.raise_unfit_call: refuses a call that does not fit its procedure.
-- called by: msrepl.apply_<article>_<operation>
-- tables:    none
-- holes:     owner, agent
--
-- After an ALTER TABLE, calls of the new shape can meet procedures of the old one, or the reverse.
create or replace function msrepl.raise_unfit_call(
    article text, procedure text, state text, reason text, more text
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    raise exception 'a call for table % does not fit its procedure %: %', $1, $2,
        $4 || coalesce(' (' || nullif($5, '') || ')', '')
        using errcode = 'object_not_in_prerequisite_state',
              detail = json_build_object('kind', 'stale_article', 'number', 20500, 'article', $1,
                                         'place', 'Subscriber', 'sqlstate', $3)::text,
              hint = 'If the table was altered at the Publisher, or `twopc article change` was cut off, run: twopc regenerate ' || $1;
end
$msrepl$;
alter function msrepl.raise_unfit_call(text, text, text, text, text) owner to {owner};
revoke all on function msrepl.raise_unfit_call(text, text, text, text, text) from public;
grant execute on function msrepl.raise_unfit_call(text, text, text, text, text) to {agent};
comment on function msrepl.raise_unfit_call(text, text, text, text, text)
    is 'Says that a call does not fit its procedure, and what to do';
