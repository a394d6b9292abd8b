-- Part of msrepl_call.run_<n>: an error ends the call but not the caller.
-- called by: proc_runner, for a routine with xact_abort off
-- tables:    none
-- holes:     call, article, nothing
--
-- Lost connections, rolled back transactions, lack of resources, cancellation, system errors and internal
-- errors are raised to the caller, and so is every error of a nested call: at a Subscriber only the outer
-- call is executed as a call.
    begin
        {call}
    exception when others then
        if nested is not null or pg_catalog.substr(sqlstate, 1, 2) in ('08', '40', '53', '57', '58', 'XX') then
            raise;
        end if;
        failure := sqlstate;{nothing}
        raise warning '% failed: % (%)', {article}, sqlerrm, sqlstate using errcode = sqlstate;
    end;
