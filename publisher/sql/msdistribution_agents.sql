-- msrepl.msdistribution_agents: how far each Subscriber's agent has come, as it said last.
-- called by: twopc.publisher.distribution; agents, which update their own row
-- tables:    itself
-- holes:     none
--
-- The position in the Subscriber's own database is the true one and may be ahead of delivered, never behind
-- it: clean-up keeps what is after delivered. profile holds what differs from an agent's usual settings.
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
    -- one of an earlier version; the lock is taken only then
    if not exists (select from pg_attribute
                   where attrelid = 'msrepl.msdistribution_agents'::regclass and attname = 'profile') then
        alter table msrepl.msdistribution_agents add column profile jsonb not null default '{{}}';
    end if;
end
$msrepl$;
comment on table msrepl.msdistribution_agents is 'How far each Subscriber''s agent has come, as it said last';
