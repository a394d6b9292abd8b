-- msrepl.log_decisions: writes a batch of decisions; all or nothing.
-- called by: the coordinator, through the session on whose existence its epochs depend
-- tables:    msrepl.decision, msrepl.coordinator_epoch
-- holes:     coordinator
--
-- participants: the names of one decision, joined by commas. A decision replaces the names that presumed
-- commit collected, and nothing else: an outcome never changes.
create or replace procedure msrepl.log_decisions(
    coordinator text, epochs bigint[], sequences bigint[], kinds text[], participants text[])
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    written integer;
begin
    insert into msrepl.decision as d (coordinator, epoch, sequence, kind, participants)
    select $1, b.epoch, b.sequence, b.kind, string_to_array(b.participants, ',')
    from unnest($2, $3, $4, $5) as b(epoch, sequence, kind, participants)
    where not exists (select from msrepl.coordinator_epoch as e where e.epoch = any ($2) and e.fenced)
    on conflict (epoch, sequence) do update
        set kind = excluded.kind, participants = excluded.participants, decided_at = clock_timestamp()
        where d.kind = 'collecting';
    get diagnostics written = row_count;
    if written <> cardinality($3) then
        if exists (select from msrepl.coordinator_epoch as e where e.epoch = any ($2) and e.fenced) then
            raise exception 'an epoch of coordinator % is fenced: another process has taken its branches over', $1
                using errcode = 'object_not_in_prerequisite_state';
        end if;
        raise exception 'a decision of coordinator % was logged before, and a decision never changes', $1
            using errcode = 'unique_violation';
    end if;
end
$msrepl$;
revoke all on procedure msrepl.log_decisions(text, bigint[], bigint[], text[], text[]) from public;
grant execute on procedure msrepl.log_decisions(text, bigint[], bigint[], text[], text[]) to {coordinator};
comment on procedure msrepl.log_decisions(text, bigint[], bigint[], text[], text[]) is 'Writes a batch of decisions, all or nothing';
