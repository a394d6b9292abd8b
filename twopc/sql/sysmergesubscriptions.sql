-- msrepl.sysmergesubscriptions: this node and each neighbour with which it merges.
-- called by: twopc.drivers.merge, msrepl.merge_neighbour
-- tables:    itself
-- holes:     owner
--
-- sentgen is the last generation of this node that the neighbour has, recgen the neighbour's last one that this node
-- has; each with the GUID by which a database that was restored is recognised. coming_gen is the neighbour's generation
-- of which at least a part has arrived. former are numbers that the neighbour had before it was restored. login is the
-- role in whose name an agent works here for that neighbour. known_from is where a comparison with the neighbour that
-- was begun anew starts: changes of its generations up to there were here before. cleaned_to is the generation up to
-- which a Publisher has removed metadata. status 0: the Publisher of a database that is being initialised from files;
-- 3: of one that is being reinitialised, whose tables existed before. status 2: a subscription that was dropped,
-- because it has had no session for twice the retention. A row with via is not a neighbour, but a server subscription
-- below that republisher, from which its changes come with its priority. partition_id is that of a Subscriber, if the
-- publication is filtered. ranges_known: this node, which allots identity ranges, knows all that a Subscriber holds;
-- false after it was restored.
create table if not exists msrepl.sysmergesubscriptions (
    subscriber_server text primary key,
    replnickname int8 not null unique,
    former int8[] not null default array[]::int8[],
    is_self boolean not null default false,
    is_publisher boolean not null default false,
    login text unique,
    subscriber_type smallint not null default 2 check (subscriber_type in (1, 2)),
    priority real not null default 0 check (priority between 0 and 100),
    status smallint not null default 1 check (status in (0, 1, 2, 3)),
    sentgen int8 not null default 0,
    sentguid uuid,
    recgen int8 not null default 0,
    recguid uuid,
    coming_gen int8,
    coming_guid uuid,
    known_from int8 not null default 0,
    via text,
    cleaned_to int8 not null default 0,
    partition_id integer,
    ranges_known boolean not null default true,
    subscribed_at timestamptz not null default clock_timestamp(),
    last_sync_date timestamptz
);
alter table msrepl.sysmergesubscriptions owner to {owner};
revoke all on msrepl.sysmergesubscriptions from public;
comment on table msrepl.sysmergesubscriptions is 'This node and its neighbours, with what each has of the other';
