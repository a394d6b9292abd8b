-- msrepl.coordinator_epoch: one row per coordinator process and protocol variant, in the distribution database.
-- called by: open_epoch, fence_epochs, log_decisions
-- tables:    itself
-- holes:     none
--
-- epoch          part of every gid; never used again
-- variant        determines the presumption for a branch that the decision log does not name
-- fenced         true: its process has ended, and no decision can be logged in its name any more
-- pid, usename, backend_start
--                of the session that writes the decisions; null: there is none. The process is alive as long
--                as that session exists: see living_epoch
create table if not exists msrepl.coordinator_epoch (
    epoch bigint generated always as identity primary key check (epoch < 2147483648),
    coordinator text not null,
    variant text not null,
    fenced boolean not null default false,
    started_at timestamptz not null default clock_timestamp(),
    fenced_at timestamptz,
    pid integer,
    usename name,
    backend_start timestamptz
);
do $msrepl$
begin
    -- a table of an earlier version, whose processes hold no epoch any more
    if not exists (select from pg_catalog.pg_attribute
                   where attrelid = 'msrepl.coordinator_epoch'::pg_catalog.regclass and attname = 'pid') then
        alter table msrepl.coordinator_epoch
            add column pid integer, add column usename name, add column backend_start timestamptz;
    end if;
end
$msrepl$;
comment on table msrepl.coordinator_epoch is 'One row per coordinator process and protocol variant';
