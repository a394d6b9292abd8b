-- msrepl.log_message: messages posted into the log for every Subscriber: tracer tokens, validation requests.
-- called by: the code that posts messages; the log reader reads the inserts from the log
-- tables:    itself
-- holes:     owner
--
-- kind  tracer_token, validation, or procedure: a routine was redefined, or its calls have other effects from now on
-- body  content of the command
set local role {owner};
create table if not exists msrepl.log_message (
    id bigint generated always as identity primary key,
    kind text not null check (kind in ('tracer_token', 'validation', 'procedure')),
    body jsonb not null,
    created_at timestamptz not null default clock_timestamp()
);
do $msrepl$
begin
    -- a table of an earlier version
    if not exists (select from pg_constraint where conrelid = 'msrepl.log_message'::regclass and contype = 'c'
                   and pg_get_constraintdef(oid) like '%procedure%') then
        alter table msrepl.log_message drop constraint log_message_kind_check;
        alter table msrepl.log_message add constraint log_message_kind_check
            check (kind in ('tracer_token', 'validation', 'procedure'));
    end if;
end
$msrepl$;
revoke all on msrepl.log_message from public;
comment on table msrepl.log_message is 'What is posted into the log for every Subscriber';
reset role;
