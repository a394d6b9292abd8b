-- msmerge_alter_<artid>: alters an article's table with its owner's rights, in the one transaction that calls it.
-- called by: twopc.drivers.merge.schema_changes, which drops it in the same transaction
-- tables:    the article's table
-- holes:     function, owner, owner_text
--
-- If the table is rewritten, its checks and generated columns are evaluated, which must not happen with an
-- administrator's rights. Within a SECURITY DEFINER function no other role can be assumed.
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
