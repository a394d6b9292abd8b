-- msrepl.msarticle_shapes: the shapes of each article and where each begins, by which stored commands can
-- be read after the article has changed.
-- called by: article_shaped; twopc.sim.spark
-- tables:    itself
-- holes:     none
--
-- shape  counts from 1; of two shapes with the same `after`, the later one applies
-- after  commands of later transactions have this shape, up to the next shape's `after`
-- source_schema … propagation  as in msarticles
create table if not exists msrepl.msarticle_shapes (
    publisher_database_id integer not null references msrepl.mspublisher_databases on delete cascade,
    article_id integer not null,
    shape integer not null,
    after pg_lsn not null,
    source_schema text not null,
    source_object text not null,
    columns jsonb not null,
    key text[] not null,
    filter_clause text,
    propagation jsonb not null,
    primary key (publisher_database_id, article_id, shape)
);
comment on table msrepl.msarticle_shapes is 'What each article was like, and from where on';
