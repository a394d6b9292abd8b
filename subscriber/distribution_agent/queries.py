"""What an agent asks the distribution database.

Texts only; `source` knows what to make of the answers.
"""

from __future__ import annotations

from subscriber.distribution_agent.pipe import Statement

SUBSCRIPTIONS = Statement(
    """
    select s.article_id, s.subscription_seqno, s.copy_snapshot, s.copy_seqno,
        case when s.loopback_detection then s.originator_id end, a.propagation
    from msrepl.mssubscriptions s
    join msrepl.msarticles a using (publisher_database_id, article_id)
    where s.publisher_database_id = $1::int and s.subscriber = $2 and s.status = 2
    order by s.article_id
    """
)
WINDOW = Statement(
    """
    select array_agg(xact_seqno), array_agg(xact_id), array_agg(commands), array_agg(bytes),
        array_agg(coalesce(originator_id, 0))
    from (
        select xact_seqno, xact_id, commands, bytes, originator_id
        from msrepl.msrepl_transactions
        where publisher_database_id = $1::int and xact_seqno > $2::pg_lsn
        order by xact_seqno
        limit $3::int
    ) t
    """,
    binary=True,
)
#: Several small batches: a row for each batch, stream, and article that is kept apart. Commands of article 0
#: are posted for everybody.
#: The order stands in the aggregates: grouping sorts, and rows of one group may change places in that.
BATCHES = Statement(
    """
    select batch, stream, array_agg(code order by xact_seqno, command_id) filter (where article_id > 0),
        array_agg(command order by xact_seqno, command_id) filter (where article_id > 0),
        coalesce(min(code) filter (where article_id > 0), 0), coalesce(max(code), 0),
        count(*) filter (where article_id > 0),
        array_agg(posted order by xact_seqno, command_id) filter (where posted is not null)
    from (
        select width_bucket(xact_seqno, $7::pg_lsn[]) as batch,
            xact_seqno, command_id, article_id, article_id * 100 + type as code, command,
            hashkey % $5::int as stream,
            case when article_id = any ($6::int[]) then article_id else 0 end as apart,
            case when article_id = 0 then xact_seqno || ' ' || type || ' ' || command end as posted
        from msrepl.msrepl_commands
        where publisher_database_id = $1::int
            and (article_id = any ($2::int[]) or article_id = 0)
            and (originator_id is distinct from $3::int or article_id = any ($4::int[]))
            and xact_seqno > $8::pg_lsn and xact_seqno <= $9::pg_lsn
    ) c
    group by batch, stream, apart
    order by batch, stream, apart
    """,
    binary=True,
)
#: A block of one large transaction, bounded by number and length of commands: rows as above.
BLOCK = Statement(
    """
    select max(command_id), stream, array_agg(code order by command_id) filter (where article_id > 0),
        array_agg(command order by command_id) filter (where article_id > 0),
        coalesce(min(code) filter (where article_id > 0), 0), coalesce(max(code), 0),
        count(*) filter (where article_id > 0),
        array_agg(posted order by command_id) filter (where posted is not null)
    from (
        select command_id, article_id, article_id * 100 + type as code, command,
            hashkey % $5::int as stream,
            case when article_id = any ($6::int[]) then article_id else 0 end as apart,
            case when article_id = 0 then xact_seqno || ' ' || type || ' ' || command end as posted,
            sum(octet_length(command)) over (order by command_id rows unbounded preceding)
                - octet_length(command) as before
        from msrepl.msrepl_commands
        where publisher_database_id = $1::int
            and (article_id = any ($2::int[]) or article_id = 0)
            and (originator_id is distinct from $3::int or article_id = any ($4::int[]))
            and xact_seqno = $7::pg_lsn and command_id > $8::int
        order by command_id
        limit $9::int
    ) c
    where before < $10::int
    group by stream, apart
    order by stream, apart
    """,
    binary=True,
)
#: Articles all of whose commands in a range are of one kind, and how many those are.
UNIFORM = Statement(
    """
    select article_id, count(*) from msrepl.msrepl_commands
    where publisher_database_id = $1::int and xact_seqno > $2::pg_lsn and xact_seqno <= $3::pg_lsn
        and article_id = any ($4::int[]) and command_id <= $5::int
    group by article_id
    having min(type) = max(type)
    """,
    binary=True,
)
OWN = Statement(
    """
    select xact_seqno from msrepl.msrepl_transactions
    where publisher_database_id = $1::int and xact_seqno > $2::pg_lsn and originator_id = $3::int
    order by xact_seqno
    """
)
#: Commands as they are, for who must look into them.
COMMANDS = Statement(
    """
    select c.xact_seqno, t.xact_id, c.command_id, c.article_id, c.type, c.originator_id, c.command
    from msrepl.msrepl_commands c
    join msrepl.msrepl_transactions t using (publisher_database_id, xact_seqno)
    where c.publisher_database_id = $1::int and (c.xact_seqno, c.command_id) > ($2::pg_lsn, $3::int)
        and c.xact_seqno <= $4::pg_lsn
    order by c.xact_seqno, c.command_id
    limit 1000
    """
)
PAGE = 1000
ARTICLES = Statement(
    "select to_jsonb(a) from msrepl.msarticles a where publisher_database_id = $1::int"
)
