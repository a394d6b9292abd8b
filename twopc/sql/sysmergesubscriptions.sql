-- msrepl.sysmergesubscriptions: this node and each neighbour that it merges with.
-- called by: twopc.drivers.merge, msrepl.merge_neighbour
-- tables:    itself
-- holes:     owner
--
-- sentgen is the last generation of ours that the neighbour has, recgen its last that we have; each with the GUID
-- by which a database that was restored is recognised. coming_gen is the neighbour's generation of which we have
-- at least a part. former are numbers that the neighbour had before it was restored. login is the role in whose name an agent
-- works here for that neighbour. known_from is where a comparison with the neighbour begins that was begun anew: what
-- its generations up to there have changed was here before. cleaned_to is the generation up to which a Publisher has forgotten what it knew.
-- status 0: the Publisher of a database that is being initialised from files; 3: that is being initialised anew, so that its tables
-- were there before. status 2: a subscription that was dropped, because it has had no session for twice the retention. A row with via is
-- no neighbour, but a server subscription below that republisher; with its priority its changes come from there. partition_id is that of a Subscriber, where the
-- publication is filtered. ranges_known: this node, which allots identity ranges, knows all that a Subscriber holds; not so after
-- it was restored.
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
