"""The agent's queries of the distribution database.

The module contains only SQL texts; `source` interprets the results.
"""

from __future__ import annotations

from twopc.proc_execution import BESIDE
from twopc.subscriber.distribution_agent.pipe import Statement
from twopc.subscriber.distribution_agent.planner import OwnCommands

#: If routines are published, rows that belong to a stored call have another article number: a Subscriber that
#: takes no calls subscribes to both numbers; one that takes calls gets these rows up to its copy, and calls after it.
SUBSCRIPTIONS = Statement(
    """
    with mine as (
        select s.*, a.kind, a.propagation, case when s.loopback_detection then s.originator_id end as own
        from msrepl.mssubscriptions s
        join msrepl.msarticles a using (publisher_database_id, article_id)
        where s.publisher_database_id = $1::int and s.subscriber = $2 and s.status = 2
    )
    select article_id, case when kind = 'proc' and article_id < /* beside */
            then coalesce(copy_seqno, subscription_seqno) else subscription_seqno end,
        case when kind = 'table' or article_id >= /* beside */ then copy_snapshot end,
        case when kind = 'table' or article_id >= /* beside */ then copy_seqno end,
        own, propagation, null::pg_lsn, kind
    from mine
    union all
    select article_id + /* beside */, subscription_seqno, copy_snapshot, copy_seqno, own, propagation,
        case when update_mode = 'read only' then copy_seqno end, kind
    from mine
    where kind = 'table' and (update_mode = 'sync tran' or copy_seqno is not null)
        and exists (select from msrepl.msarticles a
                    where a.publisher_database_id = $1::int and a.kind = 'proc')
    order by 1
    """.replace("/* beside */", str(BESIDE))
)
#: Whether the Subscriber has an agent, even if its subscription is not active.
SUBSCRIBES = Statement(
    "select from msrepl.msdistribution_agents where (publisher_database_id, subscriber) = ($1::int, $2)",
    kept=False,
)
#: Positions before which the Subscriber cannot be, unless it was restored from a backup: up to where transactions were
#: removed, and where it had reported to be.
EARLIEST = Statement(
    "select d.removed_to, coalesce(a.delivered, '0/0') from msrepl.mspublisher_databases d "
    "left join msrepl.msdistribution_agents a on a.publisher_database_id = d.id and a.subscriber = $2 "
    "where d.id = $1::int",
    kept=False,
)
#: The transactions of as many blocks as contain the requested number, one row per block, in order. The first block
#: may contain some at or before the position.
WINDOW = Statement(
    """
    select b.seqnos, b.xids, b.counts, b.lengths, b.originators
    from (
        select last_seqno, part, sum(transactions) over (order by last_seqno, part) - transactions as before
        from (
            select last_seqno, part, transactions from msrepl.msrepl_blocks
            where publisher_database_id = $1::int and last_seqno > $2::pg_lsn and transactions > 0
            order by last_seqno, part
            limit $3::int
        ) n
    ) n
    join msrepl.msrepl_blocks b on b.publisher_database_id = $1::int and b.last_seqno = n.last_seqno
        and b.part = n.part
    where n.before < $3::int
    order by b.last_seqno, b.part
    """,
    binary=True,
)
#: The partly stored transaction after a position as a row of `WINDOW`, and `open_count`, if no other transaction
#: precedes it: others may have been stored before it since the window was read.
OPEN = Statement(
    """
    select array[d.open_seqno], array[d.open_xid], array[b.last_command], array[0::bigint], array[d.open_originator],
        d.open_count
    from msrepl.mspublisher_databases d
    cross join lateral (
        select last_command from msrepl.msrepl_blocks
        where publisher_database_id = d.id and last_seqno = d.open_seqno
        order by part desc limit 1
    ) b
    where d.id = $1::int and d.open_seqno > $2::pg_lsn
        and not exists (select from msrepl.msrepl_blocks
                        where publisher_database_id = d.id and last_seqno > $2::pg_lsn and last_seqno < d.open_seqno)
    """,
    binary=True,
)
#: Whether the transaction is still partly stored; no row if its stored parts have changed or been removed.
OPEN_STATE = Statement(
    """
    select open_seqno is not null from msrepl.mspublisher_databases
    where id = $1::int and open_count = $2::bigint and (open_seqno = $3::pg_lsn or read_to >= $3::pg_lsn)
    """,
    binary=True,
)
#: Several small batches: one row per batch, stream, and article that is kept apart. Commands of article 0
#: are messages for all Subscribers.
#: The aggregates specify the order, because the sort for grouping may reorder the rows of a group.
_TAKEN_OUT = """
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
        from msrepl.commands_between($1::int, $8::pg_lsn, $9::pg_lsn)
        where (article_id = any ($2::int[]) or article_id = 0)
            and /* not own */
    ) c
    group by batch, stream, apart
    order by batch, stream, apart
""".replace("/* not own */", OwnCommands.has_not("originator_id", "article_id"))
BATCHES = Statement(_TAKEN_OUT, binary=True)
#: Several small batches for one stream. If the blocks contain only commands for this Subscriber, each batch is cut out
#: of their arrays, one row per block that it touches; the agent separates the articles that are kept apart.
CUT_OUT = Statement(
    """
    with ranges as (
        select n - 1 as batch,
            case when n = 1 then $8::pg_lsn else ($7::pg_lsn[])[n - 1] - 1::numeric end as after,
            case when n > cardinality($7::pg_lsn[]) then $9::pg_lsn else ($7::pg_lsn[])[n] - 1::numeric end as upto
        from generate_series(1, cardinality($7::pg_lsn[]) + 1) as n
    ), cuts as materialized (
        select r.batch, b.last_seqno, b.part, c.codes, c.texts, k.low, k.high,
            $5::int = 1 and k.wanted
                and /* none of own */ as whole
        from msrepl.msrepl_blocks b
        join ranges r on b.last_seqno > r.after and b.first_seqno <= r.upto
        cross join lateral (
            -- as a rule the block has nothing before and nothing after; else so many are not after a position
            select case when b.first_seqno > r.after then 1 else width_bucket(r.after, b.command_seqnos) + 1 end as first,
                case when b.last_seqno <= r.upto then b.commands else width_bucket(r.upto, b.command_seqnos) end as last
        ) p
        cross join lateral (
            select case when p.first = 1 and p.last = b.commands then b.codes else b.codes[p.first:p.last] end as codes,
                case when p.first = 1 and p.last = b.commands then b.texts else b.texts[p.first:p.last] end as texts
        ) c
        cross join lateral (
            select min(code) as low, max(code) as high, bool_and(code / 100 = any ($2::int[])) as wanted
            from unnest(c.codes) as code
        ) k
        where b.publisher_database_id = $1::int and b.last_seqno > $8::pg_lsn and b.first_seqno <= $9::pg_lsn
            and b.last_seqno <= coalesce(
                (select min(n.last_seqno) from msrepl.msrepl_blocks n
                 where n.publisher_database_id = $1::int and n.last_seqno >= $9::pg_lsn),
                $9::pg_lsn)
            and p.first <= p.last
    ), known as materialized (select coalesce(bool_and(whole), true) as whole from cuts)
    (select batch, 0, codes, texts, low, high, cardinality(codes)::bigint, null::text[]
    from cuts
    where (select known.whole from known)
    order by batch, last_seqno, part)
    union all
    select taken.* from (/* taken out */) as taken where not (select known.whole from known)
    """.replace("/* taken out */", _TAKEN_OUT).replace(
        "/* none of own */", OwnCommands.has_none("b.command_originators")
    ),
    binary=True,
)
#: A part of one large transaction, bounded by number and length of commands: rows as above, except that the first
#: value is the number of the part's last command. No row: no command follows command $8. Stored blocks that are wholly
#: for this Subscriber and of one code are sent unchanged, one row each; otherwise commands are extracted one by one.
BLOCK = Statement(
    """
    with chosen as materialized (
        select last_seqno, part, case when last_seqno = $7::pg_lsn then last_command else 2147483647 end as upto,
            total <= $9::int and size <= $10::int as fits
        from (
            select last_seqno, part, last_command, row_number() over w as number,
                sum(commands) over w as total, sum(pg_column_size(texts)) over w as size
            from msrepl.msrepl_blocks
            where publisher_database_id = $1::int and last_seqno >= $7::pg_lsn and first_seqno <= $7::pg_lsn
                and last_seqno <= (
                    select min(last_seqno) from msrepl.msrepl_blocks
                    where publisher_database_id = $1::int and last_seqno >= $7::pg_lsn)
                and (last_seqno > $7::pg_lsn or last_command > $8::int) and $8::int < 2147483647
            window w as (order by last_seqno, part)
        ) n
        where number = 1 or total <= $9::int and size <= $10::int
    ), whole as materialized (
        select chosen.upto, b.part, b.codes, b.texts, b.commands, k.code
        from chosen
        join msrepl.msrepl_blocks b on b.publisher_database_id = $1::int
            and b.last_seqno = chosen.last_seqno and b.part = chosen.part
        cross join lateral (select min(code) as code, max(code) as high from unnest(b.codes) as c (code)) k
        where $5::int = 1 and chosen.fits and b.first_seqno = b.last_seqno
            and b.last_command - b.commands >= $8::int
            and k.code = k.high and k.code / 100 = any ($2::int[])
            and /* block not own */
    ), known as materialized (
        select count(*) > 0 and count(*) = (select count(*) from chosen) as whole from whole
    ), matching as materialized (
        select c.command_id, c.code / 100 as article_id, c.code, c.command, c.seqno as xact_seqno, c.hashkey,
            sum(octet_length(c.command)) over (order by c.command_id rows unbounded preceding)
                - octet_length(c.command) as before
        from chosen
        join msrepl.msrepl_blocks b on b.publisher_database_id = $1::int
            and b.last_seqno = chosen.last_seqno and b.part = chosen.part
        cross join lateral unnest(
            b.command_seqnos, b.command_ids, b.codes, b.command_originators, b.hashkeys, b.texts)
            as c (seqno, command_id, code, originator, hashkey, command)
        where c.seqno = $7::pg_lsn and c.command_id > $8::int and not (select known.whole from known)
            and (c.code / 100 = any ($2::int[]) or c.code / 100 = 0)
            and /* not own */
        order by c.command_id
        limit $9::int
    ), taken as (
        select *, hashkey % $5::int as stream,
            case when article_id = any ($6::int[]) then article_id else 0 end as apart,
            case when article_id = 0 then xact_seqno || ' ' || code % 100 || ' ' || command end as posted
        from matching
        where before < $10::int
    ), bound as (
        select case when greatest((select count(*) from matching), 1) = (select count(*) from taken)
                and (select count(*) from matching) < $9::int
            then max(upto) else coalesce((select max(command_id) from taken), max(upto)) end as upto
        from chosen
        having count(*) > 0 and not (select known.whole from known)
    )
    select upto, 0, codes, texts, code, code, commands::bigint, null::text[]
    from (select * from whole where (select known.whole from known) order by part) w
    union all
    (select bound.upto, stream, array_agg(code order by command_id) filter (where article_id > 0),
        array_agg(command order by command_id) filter (where article_id > 0),
        coalesce(min(code) filter (where article_id > 0), 0), coalesce(max(code), 0),
        count(*) filter (where article_id > 0),
        array_agg(posted order by command_id) filter (where posted is not null)
    from bound
    left join taken on true
    group by bound.upto, stream, apart
    order by stream, apart)
    """.replace(
        "/* block not own */", OwnCommands.has_not("b.command_originators[1]", "k.code / 100")
    ).replace("/* not own */", OwnCommands.has_not("c.originator", "c.code / 100")),
    binary=True,
)
#: Articles all of whose commands in a range are of one type, and the number of those commands.
UNIFORM = Statement(
    """
    select article_id, count(*)
    from msrepl.commands_between($1::int, $2::pg_lsn, $3::pg_lsn)
    where article_id = any ($4::int[]) and command_id <= $5::int
    group by article_id
    having min(type) = max(type)
    """,
    binary=True,
)
OWN = Statement(
    """
    select xact_seqno
    from msrepl.transactions_between($1::int, $2::pg_lsn, 'FFFFFFFF/FFFFFFFF')
    where originator_id = $3::int
    order by xact_seqno
    """
)
#: Single commands after a command of a transaction, from a few blocks, for callers that examine commands.
COMMANDS = Statement(
    """
    with chosen as materialized (
        select last_seqno, part
        from (
            select last_seqno, part, sum(commands) over (order by last_seqno, part) - commands as before
            from (
                select last_seqno, part, commands from msrepl.msrepl_blocks
                where publisher_database_id = $1::int and last_seqno >= $2::pg_lsn
                    and (last_seqno > $2::pg_lsn or last_command > $3::int)
                    and last_seqno <= coalesce(
                        (select min(last_seqno) from msrepl.msrepl_blocks
                         where publisher_database_id = $1::int and last_seqno >= $4::pg_lsn),
                        $4::pg_lsn)
                order by last_seqno, part
                limit 1000
            ) n
        ) n
        where before < 1000
    )
    select c.seqno, t.xact_id, c.command_id, c.code / 100, c.code % 100, nullif(c.originator, 0), c.command
    from chosen
    join msrepl.msrepl_blocks b on b.publisher_database_id = $1::int
        and b.last_seqno = chosen.last_seqno and b.part = chosen.part
    cross join lateral unnest(b.command_seqnos, b.command_ids, b.codes, b.command_originators, b.texts)
        as c (seqno, command_id, code, originator, command)
    join (
        select xact_seqno, xact_id from msrepl.transactions_between(
            $1::int, greatest($2::pg_lsn, '0/1') - 1::numeric,
            (select max(last_seqno) from chosen))
    ) t on t.xact_seqno = c.seqno
    where (c.seqno, c.command_id) > ($2::pg_lsn, $3::int) and c.seqno <= $4::pg_lsn
    order by c.seqno, c.command_id
    """
)
ARTICLES = Statement(
    "select to_jsonb(a) from msrepl.msarticles a where publisher_database_id = $1::int and kind = 'table'"
)
PROC_ARTICLES = Statement(
    "select proc from msrepl.msarticles "
    "where publisher_database_id = $1::int and kind = 'proc' and proc ->> 'article_id' = article_id::text"
)
