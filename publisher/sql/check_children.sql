-- fragment: refuses what a referential action would change here and the Subscriber did not send.
-- called by: rendered into sp_mssync_upd_<table> and sp_mssync_del_<table>, once per key that acts
-- tables:    the published table and one that refers to it
-- holes:     source, table, parent, child, joined, changed, not_sent, article, child_name, constraint
--
-- The Subscriber sends children first, so what still refers to the row is unknown to it. The rows are locked
-- first: whoever is adding a child has finished then, and nobody adds another.
    perform 1
    from {source} join {table} as t on {parent}
    where {changed}
    for update of t;
    if exists (
        select from {source} join {table} as t on {parent} join {child} as c on {joined}
        where {changed}{not_sent}
    ) then
        perform msrepl.raise_conflict(
            'fk_violation', '23503', 20515, {article}, null, null, null, null,
            format('rows of %s that the Subscriber does not hold refer to rows of %s (%s)',
                   {child_name}, {article}, {constraint}),
            array[{constraint}]);
    end if;
