"""SQL objects: one ``.sql`` file each, whose placeholders are filled by `psycopg.sql` only."""
