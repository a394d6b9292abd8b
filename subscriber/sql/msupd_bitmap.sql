-- sp_msupd_<table>, SCALL and MCALL: sets the columns whose bit is set.
-- called by: msrepl.apply_<article>_upd
-- tables:    the subscribed table
-- holes:     procedure, parameters, bytes, guard, key_changed, with_key, without_key, command, article, key_json,
--            computed, signature, owner, caller, comment
--
-- Key columns are in the statement only if one of their bits is set, as in SQL Server's newer procedures.
-- No search_path is set: see sp_msins_<table>.
create function {procedure}({parameters}) returns void
language plpgsql
as $msrepl$
#variable_conflict use_variable
declare
    {bytes}
begin
    {guard}if {key_changed} then
        {with_key};
    else
        {without_key};
    end if;
    if not found then
        perform msrepl.sp_msreplraiserror(20598, {command}, {article}, {key_json});
    end if;{computed}
end
$msrepl$;
alter function {procedure}({signature}) owner to {owner};
revoke all on function {procedure}({signature}) from public;
grant execute on function {procedure}({signature}) to {caller};
comment on function {procedure}({signature}) is {comment};
