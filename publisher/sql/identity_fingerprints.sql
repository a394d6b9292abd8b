-- fragment: how much of old rows the log holds must stay as it was made, too.
-- called by: rendered into msrepl.fingerprints
-- tables:    catalogs
-- holes:     none
      union all
        select format('%s replica identity %s', c.oid, c.relreplident)
        from relations as r
        join pg_class as c on c.oid = r.oid
