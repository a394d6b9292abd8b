-- msrepl.msdistribution_agents: the progress of each Subscriber's agent, as it last reported it.
-- called by: twopc.publisher.distribution; agents, which update their own row
-- tables:    itself
-- holes:     none
--
-- The position in the Subscriber's own database is authoritative. It may be ahead of delivered but never
-- behind it, since clean-up keeps what comes after delivered. profile holds the settings in which an agent
-- differs from the default.
create table if not exists msrepl.msdistribution_agents (
    publisher_database_id integer not null references msrepl.mspublisher_databases on delete cascade,
    subscriber text not null,
    delivered pg_lsn not null default '0/0',
    delivered_at timestamptz,
    runstatus text not null default 'never started',
    runstatus_at timestamptz,
    last_error text,
    profile jsonb not null default '{{}}',
    primary key (publisher_database_id, subscriber)
);
do $msrepl$
begin
    -- a table of an earlier version; the lock is taken only in this case
    if not exists (select from pg_attribute
                   where attrelid = 'msrepl.msdistribution_agents'::regclass and attname = 'profile') then
        alter table msrepl.msdistribution_agents add column profile jsonb not null default '{{}}';
    end if;
end
$msrepl$;
comment on table msrepl.msdistribution_agents is 'How far each Subscriber''s agent has come, as it said last';
