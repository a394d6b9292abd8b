-- msrepl.msreplication_subscriptions, msrepl.msreplication_procedures: the positions of agents, and what
-- they call here.
-- called by: twopc.subscriber.propagation; distribution agents
-- tables:    themselves
-- holes:     owner, agent
--
-- An agent writes its position in the commit of the data: that commit, and nothing in the distribution database, shows
-- what was delivered. The columns of the first table are those of SQL Server's.
create table if not exists msrepl.msreplication_subscriptions (
    publisher text not null,
    publisher_db text not null,
    stream integer not null default 0,
    transaction_timestamp pg_lsn not null default '0/0',
    "time" timestamptz not null default clock_timestamp(),
    primary key (publisher, stream)
);
comment on table msrepl.msreplication_subscriptions is 'Up to which transaction of the Publisher each stream has delivered';
create table if not exists msrepl.msreplication_procedures (
    article_id integer not null,
    operation text not null check (operation in ('ins', 'upd', 'del')),
    dest_schema text not null,
    article text not null,
    format text not null,
    shape text not null,
    procedure text,
    signature text,
    is_default boolean not null,
    digest text,
    agent text not null,
    primary key (article_id, operation)
);
comment on table msrepl.msreplication_procedures is 'What distribution agents call for an article, and what unsubscribing drops';
alter table msrepl.msreplication_subscriptions owner to {owner};
alter table msrepl.msreplication_procedures owner to {owner};
revoke all on msrepl.msreplication_subscriptions, msrepl.msreplication_procedures from public;
grant usage on schema msrepl to {agent};
grant select, insert, update, delete on msrepl.msreplication_subscriptions to {agent};
grant select on msrepl.msreplication_procedures to {agent};
