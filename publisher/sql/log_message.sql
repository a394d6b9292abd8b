-- msrepl.log_message: what is posted into the log for every Subscriber: tracer tokens, validation requests.
-- called by: whoever posts; the log reader reads the inserts from the log
-- tables:    itself
-- holes:     owner
--
-- kind  tracer_token or validation
-- body  what the command will hold
set local role {owner};
create table if not exists msrepl.log_message (
    id bigint generated always as identity primary key,
    kind text not null check (kind in ('tracer_token', 'validation')),
    body jsonb not null,
    created_at timestamptz not null default clock_timestamp()
);
revoke all on msrepl.log_message from public;
comment on table msrepl.log_message is 'What is posted into the log for every Subscriber';
reset role;
