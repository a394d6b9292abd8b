-- sp_msins_<table>: inserts a row that was inserted at the Publisher.
-- called by: msrepl.apply_<article>_ins
-- tables:    the subscribed table
-- holes:     procedure, parameters, table, columns, overriding, values, computed, signature, owner, caller, comment
--
-- No search_path is set, since that costs a tenth of a call: the agent's session has ours. Parameters take
-- precedence over columns of the same name, and the rights are those of the caller, the table's role.
create function {procedure}({parameters}) returns void
language plpgsql
as $msrepl$
#variable_conflict use_variable
begin
    insert into {table} as t ({columns}){overriding}
    values ({values});{computed}
end
$msrepl$;
alter function {procedure}({signature}) owner to {owner};
revoke all on function {procedure}({signature}) from public;
grant execute on function {procedure}({signature}) to {caller};
comment on function {procedure}({signature}) is {comment};
