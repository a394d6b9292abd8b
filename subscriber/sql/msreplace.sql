-- sp_msupd_<table>, CALL and XCALL, and sp_msdel_<table>: one statement by key, whose row must exist.
-- called by: msrepl.apply_<article>_upd, msrepl.apply_<article>_del
-- tables:    the subscribed table
-- holes:     procedure, parameters, guard, statement, command, article, key_json, computed, signature, owner, caller,
--            comment
--
-- An UPDATE sets every column, including the key: PostgreSQL detects by itself what did not change.
-- No search_path is set: see sp_msins_<table>.
create function {procedure}({parameters}) returns void
language plpgsql
as $msrepl$
#variable_conflict use_variable
begin
    {guard}{statement};
    if not found then
        perform msrepl.sp_msreplraiserror(20598, {command}, {article}, {key_json});
    end if;{computed}
end
$msrepl$;
alter function {procedure}({signature}) owner to {owner};
revoke all on function {procedure}({signature}) from public;
grant execute on function {procedure}({signature}) to {caller};
comment on function {procedure}({signature}) is {comment};
