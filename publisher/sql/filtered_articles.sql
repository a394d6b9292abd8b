-- msrepl.sysfilteredarticles: articles that hold a part of another article's rows, for some Subscribers.
-- called by: twopc.publisher.distribution_setup, twopc.publisher.publication
-- tables:    itself
-- holes:     owner
--
-- A row belongs to such an article if it satisfies the base's filter and this one. Its number comes from the
-- same sequence as those of sysarticles.
set local role {owner};
create table if not exists msrepl.sysfilteredarticles (
    article_id integer primary key,
    base integer not null references msrepl.sysarticles on delete cascade,
    filter_clause text not null,
    unique (base, filter_clause)
);
revoke all on msrepl.sysfilteredarticles from public;
comment on table msrepl.sysfilteredarticles is 'Articles that hold part of another''s rows, for some Subscribers';
reset role;
