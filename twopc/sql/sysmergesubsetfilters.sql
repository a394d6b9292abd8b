-- msrepl.sysmergesubsetfilters: join filters: rows of an article belong to the partitions of the rows to
-- which they refer.
-- called by: twopc.publisher.merge.filters
-- tables:    itself; msrepl.sysmergearticles
-- holes:     owner
--
-- art_nickname is the child's, join_nickname the parent's. join_unique_key: the condition is a foreign key
-- of the child.
create table if not exists msrepl.sysmergesubsetfilters (
    artid uuid not null references msrepl.sysmergearticles on delete cascade,
    art_nickname integer not null,
    join_articleid uuid not null references msrepl.sysmergearticles,
    join_nickname integer not null,
    join_filterclause text not null,
    join_unique_key boolean not null,
    primary key (artid, join_articleid)
);
alter table msrepl.sysmergesubsetfilters owner to {owner};
revoke all on msrepl.sysmergesubsetfilters from public;
comment on table msrepl.sysmergesubsetfilters is 'Join filters between articles';
