-- Part of msrepl_call.run_<n>: an error ends the call and not the caller.
-- called by: proc_runner, for a routine with xact_abort off
-- tables:    none
-- holes:     call, article, nothing
--
-- Lost connections, a rolled back transaction, a lack of resources, cancellation, system and internal errors
-- go on to the caller, and so does every error in a call within a call: at a Subscriber only the outer one
-- is a call.
    begin
        {call}
    exception when others then
        if nested is not null or pg_catalog.substr(sqlstate, 1, 2) in ('08', '40', '53', '57', '58', 'XX') then
            raise;
        end if;
        failure := sqlstate;{nothing}
        raise warning '% failed: % (%)', {article}, sqlerrm, sqlstate using errcode = sqlstate;
    end;
