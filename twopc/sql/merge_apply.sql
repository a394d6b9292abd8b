-- msrepl.merge_apply: applies rows of one article, as a set if possible, otherwise one by one.
-- called by: merge agents
-- tables:    msrepl.sysmergesubscriptions
-- holes:     owner
--
-- A row that violates a constraint never stops a session: it is tried again after the others, and reported if it
-- fails then. Such a failure is recorded, once per row, if is_final. Errors that the row does not cause (a deadlock,
-- a lock that is not granted, a full disk) are raised to the caller. choices are those of msmerge_take_<artid>; if
-- they are 'leave', the rows have left the Subscriber's partition.
create or replace function msrepl.merge_apply(
    artid uuid, guids uuid[], gones boolean[], lineages text[], colvs text[], writers int8[], rows text[],
    is_final boolean, choices text[] default null,
    out applied integer, out skipped integer, out conflicts integer, out deferred uuid[],
    out failed uuid[], out codes text[], out reasons text[]
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_variable
declare
    name constant text := replace(artid::text, '-', '');
    take constant text := case choices[1]
        when 'leave' then format('select l.applied, 0 as skipped, 0 as conflicts, l.deferred from msrepl.%I($1) as l', 'msmerge_leave_' || name)
        else format('select * from msrepl.%I($1, $2, $3, $4, $5, $6, $7)', 'msmerge_take_' || name) end;
    left_over integer[] := array(select generate_series(1, cardinality(guids)));
    later integer[];
    place integer;
    counts integer[];
    left_now uuid[];
    code text;
    reason text;
begin
    applied := 0; skipped := 0; conflicts := 0; deferred := '{{}}';
    failed := '{{}}'; codes := '{{}}'; reasons := '{{}}';
    perform msrepl.merge_neighbour();
    begin
        execute take into applied, skipped, conflicts, deferred using guids, gones, lineages, colvs, writers, rows, choices;
        return;
    exception
        when transaction_rollback or lock_not_available or insufficient_resources
            or operator_intervention or system_error or internal_error then
            raise;
        when others or assert_failure then
            null;
    end;
    loop
        later := '{{}}'; failed := '{{}}'; codes := '{{}}'; reasons := '{{}}';
        foreach place in array left_over loop
            begin
                execute format('select array[applied, skipped, conflicts], deferred from (%s) as t', take) into counts, left_now
                    using array[guids[place]], array[gones[place]], array[lineages[place]], array[colvs[place]],
                          array[writers[place]], array[rows[place]], array[choices[place]];
                applied := applied + counts[1];
                skipped := skipped + counts[2];
                conflicts := conflicts + counts[3];
                deferred := deferred || left_now;
            exception
                when transaction_rollback or lock_not_available or insufficient_resources
                    or operator_intervention or system_error or internal_error then
                    raise;
                when others or assert_failure then
                    get stacked diagnostics code = returned_sqlstate, reason = message_text;
                    later := later || place;
                    failed := failed || guids[place];
                    codes := codes || code;
                    reasons := reasons || reason;
            end;
        end loop;
        exit when cardinality(later) = 0 or cardinality(later) = cardinality(left_over);
        left_over := later;
    end loop;
    if is_final then
        perform msrepl.merge_record_failure(artid, guids[l.place], gones[l.place], rows[l.place], codes[l.n], reasons[l.n], true)
        from unnest(later) with ordinality as l(place, n);
    end if;
end
$msrepl$;
alter function msrepl.merge_apply(uuid, uuid[], boolean[], text[], text[], int8[], text[], boolean, text[]) owner to {owner};
revoke all on function msrepl.merge_apply(uuid, uuid[], boolean[], text[], text[], int8[], text[], boolean, text[]) from public;
comment on function msrepl.merge_apply(uuid, uuid[], boolean[], text[], text[], int8[], text[], boolean, text[])
    is 'Applies rows that a neighbour has sent';
