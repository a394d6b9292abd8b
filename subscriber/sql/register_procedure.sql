-- The row of an article's procedure: what is called, and what unsubscribing drops.
-- called by: twopc.subscriber.propagation
-- tables:    msrepl.msreplication_procedures
-- holes:     article_id, operation, schema, table, format, shape, procedure, signature, is_default, agent
insert into msrepl.msreplication_procedures
    (article_id, operation, dest_schema, article, format, shape, procedure, signature, is_default, digest, agent)
values ({article_id}, {operation}, {schema}, {table}, {format}, {shape}, {procedure}, {signature}, {is_default},
        case when {is_default} then (select md5(prosrc) from pg_proc where oid = to_regprocedure({signature})) end,
        {agent});
