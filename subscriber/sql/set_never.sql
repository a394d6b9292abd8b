-- msrepl.set_<article>_<operation>, where calls must be made one by one: returns -1.
-- called by: the distribution agent
-- tables:    none
-- holes:     function, owner, agent, comment
create function {function}(commands text[]) returns bigint
language sql immutable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select -1::bigint
$msrepl$;
alter function {function}(text[]) owner to {owner};
revoke all on function {function}(text[]) from public;
grant execute on function {function}(text[]) to {agent};
comment on function {function}(text[]) is {comment};
