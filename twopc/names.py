"""Identifiers: built, parsed and bounded here and nowhere else.

A global transaction is ``twopc:<coordinator>:<epoch>:<sequence>``; each of its branches adds
``:<branch>`` and is the *gid* of a PostgreSQL prepared transaction. PostgreSQL takes gids of up to
199 bytes, unique in a whole cluster, not only in a database. A branch is named by its node; where
there are several at one node, the further ones add whose they are: ``pub/store_b``.

Object names follow the original (``sp_mssync_ins_<table>``); a name over 63 bytes is cut and its
tail replaced by a hash, because the server would cut it silently. Two tables never share an object:
see `table_part`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from twopc.proof import no_proof

PREFIX = "twopc"
GID_BYTES_MAX = 199
NAME_BYTES_MAX = 63
#: The schema that holds everything of ours in a node's database.
SCHEMA = "msrepl"
#: The subscription that keeps a published database from being dropped.
KEEP = "msrepl_keep"
#: The schema at a Subscriber that holds dblink, closed to PUBLIC.
LINK_SCHEMA = "msrepl_link"
VERSION_COLUMN = "msrepl_tran_version"

#: What the decision log's columns hold.
EPOCH_MAX = 2**31 - 1
SEQUENCE_MAX = 2**63 - 1

_PART = re.compile(r"[A-Za-z0-9_.-]+\Z")
_NUMBER = "0|[1-9][0-9]{0,19}"  # as it is written: no other digits, no leading zeros
_GID = re.compile(
    rf"{PREFIX}:(?P<coordinator>[A-Za-z0-9_.-]+):(?P<epoch>{_NUMBER}):(?P<sequence>{_NUMBER})"
    r"(?::(?P<branch>[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)?))?\Z"
)
_COORDINATOR_BYTES_MAX = 63
_BRANCH_BYTES_MAX = 63


def _checked_part(text: str, what: str, bytes_max: int) -> str:
    if not _PART.match(text) or len(text) > bytes_max:
        raise ValueError(
            f"{what} {text!r}: use 1 to {bytes_max} of the characters A-Z a-z 0-9 _ . -"
        )
    return text


NODE_NAMES = (
    f"1 to {min(_BRANCH_BYTES_MAX, _COORDINATOR_BYTES_MAX)} of the characters A-Z a-z 0-9 _ . -"
)
"""How nodes may be called, for messages."""


def is_node_name(text: str) -> bool:
    """Whether a node or coordinator may be called so: its name is part of gids."""
    return bool(_PART.match(text)) and len(text) <= min(_BRANCH_BYTES_MAX, _COORDINATOR_BYTES_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalId:
    """One global transaction."""

    coordinator: str
    """Which coordinator's decision log decides it."""
    epoch: int
    """Which process of that coordinator began it; never used again."""
    sequence: int
    """Counts up within the epoch."""

    def __post_init__(self) -> None:
        _checked_part(self.coordinator, "coordinator", _COORDINATOR_BYTES_MAX)
        if not (0 <= self.epoch <= EPOCH_MAX and 0 <= self.sequence <= SEQUENCE_MAX):
            raise ValueError(
                f"epoch {self.epoch} must be 0 to {EPOCH_MAX}, and sequence {self.sequence}"
                f" 0 to {SEQUENCE_MAX}"
            )

    def __str__(self) -> str:
        return f"{PREFIX}:{self.coordinator}:{self.epoch}:{self.sequence}"

    def branch(self, name: str) -> BranchId:
        """The branch at one participant."""
        return BranchId(global_id=self, branch=name)

    @classmethod
    def parse(cls, text: str) -> GlobalId | None:
        """The global transaction that `text` names, or None if it is not one of ours."""
        match = _GID.match(text)
        if match is None or match["branch"] is not None:
            return None
        return _global_id(match)


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchId:
    """One branch of a global transaction; its text is the gid of a prepared transaction."""

    global_id: GlobalId
    branch: str
    """The node's name in the topology, or what `further_branch` makes of it."""

    def __post_init__(self) -> None:
        node, slash, of = self.branch.partition("/")
        _checked_part(node, "branch", _BRANCH_BYTES_MAX)
        if slash:
            _checked_part(of, "branch", _BRANCH_BYTES_MAX)
        if len(str(self)) > GID_BYTES_MAX:
            raise ValueError(f"gid {self} is longer than {GID_BYTES_MAX} bytes")

    def __str__(self) -> str:
        return f"{self.global_id}:{self.branch}"

    @property
    def node(self) -> str:
        """The node that it is prepared at."""
        return node_of(self.branch)

    @classmethod
    def parse(cls, gid: str) -> BranchId | None:
        """The branch that a gid names, or None if the gid is foreign or not parsable."""
        match = _GID.match(gid)
        if match is None or match["branch"] is None or len(gid) > GID_BYTES_MAX:
            return None
        global_id = _global_id(match)
        if global_id is None or not all(map(_fits, match["branch"].split("/"))):
            return None
        return cls(global_id=global_id, branch=match["branch"])


def _global_id(result: re.Match[str]) -> GlobalId | None:
    """What a gid's text names; None if no coordinator has made it. Anybody may prepare under any gid."""
    epoch, sequence = int(result["epoch"]), int(result["sequence"])
    is_ours = len(result["coordinator"]) <= _COORDINATOR_BYTES_MAX
    if not is_ours or epoch > EPOCH_MAX or sequence > SEQUENCE_MAX:
        return None
    return GlobalId(coordinator=result["coordinator"], epoch=epoch, sequence=sequence)


def _fits(branch: str) -> bool:
    return len(branch) <= _BRANCH_BYTES_MAX


_STREAM_GID = re.compile(
    rf"msrepl_agent:(?P<publisher>[A-Za-z0-9_.-]+):(?P<database>{_NUMBER})"
    rf":(?P<upto>{_NUMBER}):(?P<stream>{_NUMBER})\Z"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamId:
    """What one stream of a distribution agent has prepared; its text is a gid.

    Not a branch of a global transaction: the agent alone prepares and finishes it.
    """

    publisher: str
    """Whose changes they are."""
    database: int
    """OID of the Subscriber's database; gids are unique in a whole cluster."""
    upto: int
    """The log position that its batch ends at."""
    stream: int

    def __str__(self) -> str:
        return f"msrepl_agent:{self.publisher}:{self.database}:{self.upto}:{self.stream}"

    @classmethod
    def parse(cls, gid: str) -> StreamId | None:
        """What a gid names, or None if no agent has made it."""
        match = _STREAM_GID.match(gid)
        if match is None:
            return None
        return cls(
            publisher=match["publisher"],
            database=int(match["database"]),
            upto=int(match["upto"]),
            stream=int(match["stream"]),
        )


class EpochIds:
    """The ids of one epoch, checked once: a coordinator makes thousands of them a second.

    Args:
        prove: what the coordinator proves of a global transaction with; see `twopc.proof`.
    """

    __slots__ = ("_prefix", "coordinator", "epoch", "prove")

    def __init__(
        self,
        coordinator: str,
        epoch: int,
        branches: Iterable[str],
        prove: Callable[[str, str, int], str] = no_proof,
    ) -> None:
        longest = GlobalId(coordinator=coordinator, epoch=epoch, sequence=SEQUENCE_MAX)
        for branch in branches:
            longest.branch(branch)  # raises if its gid were no gid, or too long
        self.coordinator = coordinator
        self.epoch = epoch
        self.prove = prove
        self._prefix = f"{PREFIX}:{coordinator}:{epoch}:"

    def text(self, sequence: int) -> str:
        """What ``str(GlobalId(...))`` gives."""
        return f"{self._prefix}{sequence}"


def branch_gid(global_text: str, branch: str) -> str:
    """The gid of a branch, from two texts that `EpochIds` has checked; it needs no quoting in SQL."""
    return f"{global_text}:{branch}"


def further_branch(node: str, of: str) -> str:
    """The branch that a transaction has at `node` besides the one named by it, for participant `of`."""
    return f"{node}/{of}"


def node_of(branch: str) -> str:
    """The node that a branch belongs to."""
    return branch.partition("/")[0]


def session_name(coordinator: str, epoch: int) -> str:
    """The `application_name` of the sessions that a coordinator opens for applications."""
    return bounded(f"{PREFIX} {epoch} {coordinator}")


def bounded(name: str, bytes_max: int = NAME_BYTES_MAX) -> str:
    """`name` itself if it fits, else its head and a hash of the whole."""
    raw = name.encode()
    if len(raw) <= bytes_max:
        return name
    tail = hashlib.sha256(raw).hexdigest()[:8]
    head = raw[: bytes_max - len(tail) - 1].decode(errors="ignore")
    return f"{head}_{tail}"


def article_name(schema: str, table: str) -> str:
    """How messages call a table: ``orders``, or ``sales.orders`` outside ``public``."""
    return table if schema == "public" else f"{schema}.{table}"


def table_part(schema: str, table: str) -> str:
    """How a table is named inside an object's name: ``orders``, or ``sales__orders`` outside ``public``.

    Names that could be read in two ways carry a hash of schema and table, so that no two tables
    ever share an object; both ends work it out from the table's name alone.
    """
    plain = table if schema == "public" else f"{schema}__{table}"
    if schema == "public":
        ambiguous = "__" in table
    else:
        ambiguous = plain.count("__") > 1 or schema.endswith("_") or table.startswith("_")
    if not ambiguous:
        return plain
    digest = hashlib.sha256(f"{schema}\0{table}".encode()).hexdigest()
    return f"{plain}__{digest[:8]}"


def sync_procedure(operation: str, schema: str, table: str) -> str:
    """``sp_mssync_ins_<table>`` at the Publisher; `operation` is ins, upd or del."""
    return bounded(f"sp_mssync_{operation}_{table_part(schema, table)}")


def change_function(operation: str, schema: str, table: str) -> str:
    """``mssync_change_ins_<table>`` at the Publisher, by which `sync_procedure` changes the table."""
    return bounded(f"mssync_change_{operation}_{table_part(schema, table)}")


def make_function(schema: str, table: str) -> str:
    """``mssync_make_<table>`` at the Publisher, which makes the values of ``sp_mssync_gen_<table>``."""
    return bounded(f"mssync_make_{table_part(schema, table)}")


def sync_row_type(operation: str, schema: str, table: str) -> str:
    """The row type in which `sync_procedure` takes its rows."""
    return bounded(f"mssync_{operation}_row_{table_part(schema, table)}")


def shape_type(schema: str, table: str) -> str:
    """The type whose one value is the shape of rows that `sync_procedure` takes."""
    return bounded(f"mssync_shape_{table_part(schema, table)}")


def sync_trigger_function(operation: str, schema: str, table: str) -> str:
    """``trg_mssync_<operation>_<table>`` at the Subscriber."""
    return bounded(f"trg_mssync_{operation}_{table_part(schema, table)}")


def first_trigger(name: str) -> str:
    """A trigger name that sorts before those of users: PostgreSQL fires by name."""
    return bounded(f"!{name}")


def last_trigger(name: str) -> str:
    """A trigger name that sorts after those of users (of all that begin with an ASCII character)."""
    return bounded(f"~{name}")


def stored_key(operation: str, schema: str, table: str) -> str:
    """Under which a sync procedure leaves the rows that the Publisher stored otherwise than sent."""
    return f"{operation} {schema}.{table}"


def version_trigger(schema: str, table: str) -> str:
    """The Publisher's ``~sp_mssync_upd_trig_<table>``, which gives a row its version, after any user's trigger."""
    return last_trigger(f"sp_mssync_upd_trig_{table_part(schema, table)}")


def witness_trigger(schema: str, table: str) -> str:
    """The Publisher's ``sp_mssync_witness_<table>``, which sees what other triggers change."""
    return bounded(f"sp_mssync_witness_{table_part(schema, table)}")


def generated_setting(schema: str, table: str) -> str:
    """The transaction-local setting that keeps a block of generated values (letters only)."""
    digest = hashlib.sha256(f"{schema}\0{table}".encode()).hexdigest()[:16]
    return f"msrepl.generated_{digest}"


def truncate_trigger(schema: str, table: str) -> str:
    """``trg_mssync_truncate_<table>``, which refuses TRUNCATE at either end."""
    return bounded(f"trg_mssync_truncate_{table_part(schema, table)}")


def propagation_procedure(operation: str, schema: str, table: str, *, apart: bool = False) -> str:
    """``sp_msins_<schema><table>`` at a Subscriber, the schema left out for ``public`` (seed 000).

    Args:
        apart: another article has this name already (``public.salesorders`` and ``sales.orders``): a hash
            keeps them apart.
    """
    plain = f"sp_ms{operation}_{table if schema == 'public' else schema + table}"
    if not apart:
        return bounded(plain)
    return bounded(f"{plain}_{hashlib.sha256(f'{schema}{chr(0)}{table}'.encode()).hexdigest()[:8]}")


def merge_object(what: str, artid: UUID) -> str:
    """``msmerge_<what>_<GUID>``: a trigger, function or type of one article of a merge publication (seed 001)."""
    return bounded(f"msmerge_{what}_{artid.hex}")


def merge_metadata(nickname: int) -> str:
    """The part of ``msmerge_metadata`` that holds one article's rows."""
    return f"msmerge_metadata_{nickname}"


def merge_floor(nickname: int) -> str:
    """The sequence that holds the highest version of a row of one article that is forgotten."""
    return f"msmerge_floor_{nickname}"


def merge_places(nickname: int) -> str:
    """The sequence that counts the identity values that a Subscriber has drawn for one article."""
    return f"msmerge_places_{nickname}"


def merge_conflict_table(publication: str, schema: str, table: str) -> str:
    """``msmerge_conflict_<publication>_<article>``, which holds the rows that have lost."""
    return bounded(f"msmerge_conflict_{publication}_{table_part(schema, table)}")


def role(kind: str, *parts: str) -> str:
    """A role name: roles belong to the whole cluster, so the parts are hashed in."""
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    return bounded(f"msrepl_{kind}_{digest}")


def table_roles(owner: str) -> str:
    """What the names of all begin with that write tables of the database whose objects are `owner`'s."""
    return f"{role('table', owner)}_"


def table_role(owner: str, schema: str, table: str) -> str:
    """The role in whose name one published or subscribed table is written."""
    digest = hashlib.sha256(f"{schema}\0{table}".encode()).hexdigest()[:12]
    return table_roles(owner) + digest


def calls_role(owner: str) -> str:
    """The role in whose name a Subscriber makes calls of published routines."""
    return f"{table_roles(owner)}calls"


def resolver_role(owner: str, artid: UUID) -> str:
    """The role in whose name a Publisher calls the SQL resolver of one article of a merge publication."""
    return f"{table_roles(owner)}resolver_{artid.hex[:12]}"


def filter_role(owner: str, artid: UUID) -> str:
    """The role in whose name a Publisher evaluates the filters of one article of a merge publication."""
    return f"{table_roles(owner)}filter_{artid.hex[:12]}"


#: What the name of every replication slot of ours begins with.
SLOT_PREFIX = "msrepl_"


def slot(topology: str, database: str) -> str:
    """The replication slot of a Publisher database. Slots belong to the whole cluster, and their names
    hold a-z, 0-9 and _ only, so a hash tells apart what was cut or replaced."""
    digest = hashlib.sha256(f"{topology}\0{database}".encode()).hexdigest()[:12]
    head = re.sub(r"[^a-z0-9_]", "_", topology.lower())[:36]
    return f"{SLOT_PREFIX}{head}_{digest}"
