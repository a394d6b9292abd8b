-- sp_mssync_<operation>_<table>: writes the branch marker, and has a Subscriber's rows applied.
-- called by: a trigger of a Subscriber, over its link
-- tables:    msrepl.branch_marker; the published table, by mssync_change_<operation>_<table>
-- holes:     procedure, parameters, change, arguments, path_is_kept, signature, owner, comment
--
-- The rows remain text until then: types may be a user's too, and their checks must not run with the rights
-- of the link.
create or replace procedure {procedure}({parameters})
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if $2 is not null then
        insert into msrepl.branch_marker (gid, xid, participants, originator)
        values ($2, pg_current_xact_id(), $3, session_user);
    end if;
    perform {change}({arguments});
{path_is_kept}end
$msrepl$;
alter procedure {procedure}({signature}) owner to {owner};
revoke all on procedure {procedure}({signature}) from public;
comment on procedure {procedure}({signature}) is {comment};
