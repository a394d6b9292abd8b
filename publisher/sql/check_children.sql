-- fragment: refuses a referential action that would change rows here which the Subscriber did not send.
-- called by: rendered into sp_mssync_upd_<table> and sp_mssync_del_<table>, once per key that acts
-- tables:    the published table and one that refers to it
-- holes:     source, table, parent, child, joined, changed, not_sent, article, child_name, constraint
--
-- The Subscriber sends child rows first, so rows that still refer to the parent are unknown to it. The parent
-- rows are locked first: transactions that were adding children have ended then, and no other can add any.
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
