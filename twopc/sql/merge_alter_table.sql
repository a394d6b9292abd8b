-- msmerge_alter_<artid>: alters an article's table, in its owner's name, for the one transaction that calls it.
-- called by: twopc.drivers.merge.schema_changes, which drops it in the same transaction
-- tables:    the article's table
-- holes:     function, owner, owner_text
--
-- A table that is rewritten has its checks and generated columns evaluated: not with an administrator's rights. Within a
-- function of this kind nobody can take on another role.
create function {function}(statement text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if current_user <> {owner_text} then
        raise exception 'the table is not altered as %', {owner_text};
    end if;
    execute statement;
end
$msrepl$;
alter function {function}(text) owner to {owner};
revoke all on function {function}(text) from public;
comment on function {function}(text) is 'Alters a merged table; there for one transaction';
