-- msrepl.mssubscriptions: which article goes to which Subscriber, and from which position.
-- called by: twopc.publisher.distribution; agents, which read their own
-- tables:    itself
-- holes:     none
--
-- status              0 inactive, 1 subscribed (not copied yet), 2 active
-- subscription_seqno  commands of transactions up to here are not for this subscription; NULL: not known yet
-- copy_snapshot       the snapshot of the initial copy
-- copy_seqno          end of the log after the copy: of the transactions between subscription_seqno and
--                     here, the copy contains those that copy_snapshot sees
-- update_mode         sync tran: the Subscriber changes its copy too (immediate updating); read only: only agents do
create table if not exists msrepl.mssubscriptions (
    publisher_database_id integer not null,
    article_id integer not null,
    subscriber text not null,
    originator_id integer references msrepl.msrepl_originators,
    status smallint not null default 1 check (status in (0, 1, 2)),
    sync_type text not null default 'automatic',
    loopback_detection boolean not null default true,
    subscription_seqno pg_lsn,
    copy_snapshot pg_snapshot,
    copy_seqno pg_lsn,
    update_mode text not null default 'sync tran' check (update_mode in ('sync tran', 'read only')),
    primary key (publisher_database_id, article_id, subscriber),
    foreign key (publisher_database_id, article_id) references msrepl.msarticles
);
do $msrepl$
begin
    -- a table of an earlier version; the lock is taken only in this case
    if not exists (select from pg_attribute
                   where attrelid = 'msrepl.mssubscriptions'::regclass and attname = 'update_mode') then
        alter table msrepl.mssubscriptions add column update_mode text not null default 'sync tran'
            check (update_mode in ('sync tran', 'read only'));
    end if;
end
$msrepl$;
comment on table msrepl.mssubscriptions is 'Which article goes to which Subscriber, and from where on';
