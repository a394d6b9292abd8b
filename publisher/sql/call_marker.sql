-- msrepl.call_marker: marks in the log where a call of a published routine begins and where it ends.
-- called by: open_bracket, close_bracket; the log reader reads the inserts from the log
-- tables:    itself
-- holes:     owner
--
-- Rows are inserted and never read here, so that serializable callers do not depend on each other.
--
-- opened    id of the row that began the call; NULL: this row begins it
-- snapshot  the caller's snapshot at the beginning
-- call      arguments and settings (twopc.proc_execution.ProcCall.as_text)
-- failure   SQLSTATE of the error that ended the call
set local role {owner};
create table if not exists msrepl.call_marker (
    id bigint generated always as identity primary key,
    article_id integer not null,
    opened bigint,
    snapshot text,
    call text,
    failure text,
    created_at timestamptz not null default clock_timestamp()
);
revoke all on msrepl.call_marker from public;
comment on table msrepl.call_marker is 'Where in the log a call begins and where it ends';
reset role;
