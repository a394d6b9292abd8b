"""Identifiers: built, parsed and limited in length here and nowhere else.

A global transaction is ``twopc:<coordinator>:<epoch>:<sequence>``; each of its branches adds ``:<branch>`` and is
the *gid* of a PostgreSQL prepared transaction. PostgreSQL takes gids of up to 199 bytes, unique in a whole cluster,
not only in a database. A branch is named by its node; if a transaction has several branches at one node, the
further ones add the participant to which they belong: ``pub/store_b``.

Object names follow the original (``sp_mssync_ins_<table>``); a name over 63 bytes is cut and its tail replaced by a
hash, because the server would cut it silently. Two tables never share an object: see `table_part`.
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
#: The schema that holds all objects of the package in a node's database.
SCHEMA = "msrepl"
#: Subscription of PostgreSQL whose existence prevents a published database from being dropped.
KEEP = "msrepl_keep"
#: Schema at a Subscriber that contains dblink, without rights for PUBLIC.
LINK_SCHEMA = "msrepl_link"
VERSION_COLUMN = "msrepl_tran_version"

#: Maximum values of the decision log's columns.
EPOCH_MAX = 2**31 - 1
SEQUENCE_MAX = 2**63 - 1

_PART = re.compile(r"[A-Za-z0-9_.-]+\Z")
_NUMBER = "0|[1-9][0-9]{0,19}"  # the canonical notation: ASCII digits without leading zeros
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
"""Description of valid node names, for messages."""


def is_node_name(text: str) -> bool:
    """Return whether a text is a valid name of a node or coordinator, which is part of gids."""
    return bool(_PART.match(text)) and len(text) <= min(_BRANCH_BYTES_MAX, _COORDINATOR_BYTES_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalId:
    """Identifier of one global transaction."""

    coordinator: str
    """The coordinator whose decision log decides the transaction."""
    epoch: int
    """The epoch, that is, the process of that coordinator that began the transaction; never used again."""
    sequence: int
    """Number of the transaction within the epoch, counted upwards."""

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
        """Return the id of the branch at one participant."""
        return BranchId(global_id=self, branch=name)

    @classmethod
    def parse(cls, text: str) -> GlobalId | None:
        """Return the global transaction that `text` names, or None if it is not one of ours."""
        match = _GID.match(text)
        if match is None or match["branch"] is not None:
            return None
        return _global_id(match)


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchId:
    """One branch of a global transaction; its text is the gid of a prepared transaction."""

    global_id: GlobalId
    branch: str
    """The node's name in the topology, or the result of `further_branch`."""

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
        """The node at which the branch is prepared."""
        return node_of(self.branch)

    @classmethod
    def parse(cls, gid: str) -> BranchId | None:
        """Return the branch that a gid names, or None if the gid is foreign or cannot be parsed."""
        match = _GID.match(gid)
        if match is None or match["branch"] is None or len(gid) > GID_BYTES_MAX:
            return None
        global_id = _global_id(match)
        if global_id is None or not all(map(_fits, match["branch"].split("/"))):
            return None
        return cls(global_id=global_id, branch=match["branch"])


def _global_id(result: re.Match[str]) -> GlobalId | None:
    """Return the global transaction of a matched gid; None if no coordinator can have made it. Any user may prepare
    under any gid.
    """
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
    """Transaction prepared by one stream of a distribution agent; its text is a gid.

    It is not a branch of a global transaction: the agent alone prepares and finishes it.
    """

    publisher: str
    """The Publisher whose changes the transaction applies."""
    database: int
    """OID of the Subscriber's database, because gids are unique in a whole cluster."""
    upto: int
    """The position at which the agent's batch ends."""
    stream: int

    def __str__(self) -> str:
        return f"msrepl_agent:{self.publisher}:{self.database}:{self.upto}:{self.stream}"

    @classmethod
    def parse(cls, gid: str) -> StreamId | None:
        """Return the stream's transaction that a gid names, or None if no agent has made the gid."""
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
    """The ids of one epoch, validated once because a coordinator makes thousands of ids a second.

    Args:
        prove: function with which the coordinator proves statements about a global transaction; see `twopc.proof`.
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
            longest.branch(branch)  # raises ValueError if the gid would be invalid or too long
        self.coordinator = coordinator
        self.epoch = epoch
        self.prove = prove
        self._prefix = f"{PREFIX}:{coordinator}:{epoch}:"

    def text(self, sequence: int) -> str:
        """Return the text of a global transaction's id, as ``str(GlobalId(...))`` does."""
        return f"{self._prefix}{sequence}"


def branch_gid(global_text: str, branch: str) -> str:
    """Return the gid of a branch, from two texts that `EpochIds` has validated; the gid needs no quoting in SQL."""
    return f"{global_text}:{branch}"


def further_branch(node: str, of: str) -> str:
    """Return the branch that a transaction has at `node` in addition to the one named after the node, for
    participant `of`.
    """
    return f"{node}/{of}"


def node_of(branch: str) -> str:
    """Return the node to which a branch belongs."""
    return branch.partition("/")[0]


def session_name(coordinator: str, epoch: int) -> str:
    """Return the `application_name` of the sessions that a coordinator opens for applications."""
    return bounded(f"{PREFIX} {epoch} {coordinator}")


def _digest(length: int, *parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:length]


def bounded(name: str, bytes_max: int = NAME_BYTES_MAX) -> str:
    """Return `name` itself if it fits, else its beginning and a hash of the whole."""
    raw = name.encode()
    if len(raw) <= bytes_max:
        return name
    tail = _digest(8, name)
    head = raw[: bytes_max - len(tail) - 1].decode(errors="ignore")
    return f"{head}_{tail}"


def article_name(schema: str, table: str) -> str:
    """Return a table's name for messages: ``orders``, or ``sales.orders`` outside ``public``."""
    return table if schema == "public" else f"{schema}.{table}"


def table_part(schema: str, table: str) -> str:
    """Return the part of an object's name that stands for a table: ``orders``, or ``sales__orders`` outside
    ``public``.

    Ambiguous names carry a hash of schema and table, so that no two tables ever share an object; both ends derive
    the result from the table's name alone.
    """
    plain = table if schema == "public" else f"{schema}__{table}"
    if schema == "public":
        ambiguous = "__" in table
    else:
        ambiguous = plain.count("__") > 1 or schema.endswith("_") or table.startswith("_")
    if not ambiguous:
        return plain
    return f"{plain}__{_digest(8, schema, table)}"


def sync_procedure(operation: str, schema: str, table: str) -> str:
    """Return ``sp_mssync_ins_<table>``, a procedure at the Publisher; `operation` is ins, upd or del."""
    return bounded(f"sp_mssync_{operation}_{table_part(schema, table)}")


def change_function(operation: str, schema: str, table: str) -> str:
    """Return ``mssync_change_ins_<table>``, the function at the Publisher by which `sync_procedure` changes the
    table.
    """
    return bounded(f"mssync_change_{operation}_{table_part(schema, table)}")


def make_function(schema: str, table: str) -> str:
    """Return ``mssync_make_<table>``, the function at the Publisher that makes the values of
    ``sp_mssync_gen_<table>``.
    """
    return bounded(f"mssync_make_{table_part(schema, table)}")


def sync_row_type(operation: str, schema: str, table: str) -> str:
    """Return the name of the row type in which `sync_procedure` takes its rows."""
    return bounded(f"mssync_{operation}_row_{table_part(schema, table)}")


def shape_type(schema: str, table: str) -> str:
    """Return the name of the type whose one value is the shape of rows that `sync_procedure` takes."""
    return bounded(f"mssync_shape_{table_part(schema, table)}")


def sync_trigger_function(operation: str, schema: str, table: str) -> str:
    """Return ``trg_mssync_<operation>_<table>``, a trigger function at the Subscriber."""
    return bounded(f"trg_mssync_{operation}_{table_part(schema, table)}")


def first_trigger(name: str) -> str:
    """Return a trigger name that sorts before those of users: PostgreSQL fires triggers in the order of their
    names.
    """
    return bounded(f"!{name}")


def last_trigger(name: str) -> str:
    """Return a trigger name that sorts after those of users (after all that begin with an ASCII character)."""
    return bounded(f"~{name}")


def stored_key(operation: str, schema: str, table: str) -> str:
    """Return the key under which a sync procedure leaves the rows that the Publisher did not store as sent."""
    return f"{operation} {schema}.{table}"


def version_trigger(schema: str, table: str) -> str:
    """Return ``~sp_mssync_upd_trig_<table>``, the Publisher's trigger that gives a row its version, after any
    user's trigger.
    """
    return last_trigger(f"sp_mssync_upd_trig_{table_part(schema, table)}")


def witness_trigger(schema: str, table: str) -> str:
    """Return ``sp_mssync_witness_<table>``, the Publisher's trigger that detects changes by other triggers."""
    return bounded(f"sp_mssync_witness_{table_part(schema, table)}")


def generated_setting(schema: str, table: str) -> str:
    """Return the name (letters only) of the transaction-local setting that holds a block of generated values."""
    return f"msrepl.generated_{_digest(16, schema, table)}"


def truncate_trigger(schema: str, table: str) -> str:
    """Return ``trg_mssync_truncate_<table>``, the trigger that refuses TRUNCATE at either end."""
    return bounded(f"trg_mssync_truncate_{table_part(schema, table)}")


def propagation_procedure(operation: str, schema: str, table: str, *, apart: bool = False) -> str:
    """Return ``sp_msins_<schema><table>``, a procedure at a Subscriber; the schema is left out for ``public`` (seed
    000).

    Args:
        apart: whether another article has this name already (``public.salesorders`` and ``sales.orders``); a hash
            then distinguishes the two.
    """
    plain = f"sp_ms{operation}_{table if schema == 'public' else schema + table}"
    return bounded(f"{plain}_{_digest(8, schema, table)}" if apart else plain)


def merge_object(what: str, artid: UUID) -> str:
    """Return ``msmerge_<what>_<GUID>``: a trigger, function or type of one article of a merge publication (seed
    001).
    """
    return bounded(f"msmerge_{what}_{artid.hex}")


def merge_metadata(nickname: int) -> str:
    """Return the name of the partition of ``msmerge_metadata`` that holds one article's rows."""
    return f"msmerge_metadata_{nickname}"


def merge_floor(nickname: int) -> str:
    """Return the name of the sequence that holds the highest forgotten version of any row of one article."""
    return f"msmerge_floor_{nickname}"


def merge_places(nickname: int) -> str:
    """Return the name of the sequence that counts the identity values that a Subscriber has drawn for one article."""
    return f"msmerge_places_{nickname}"


def merge_conflict_table(publication: str, schema: str, table: str) -> str:
    """Return ``msmerge_conflict_<publication>_<article>``, the table of rows that lost a conflict."""
    return bounded(f"msmerge_conflict_{publication}_{table_part(schema, table)}")


def role(kind: str, *parts: str) -> str:
    """Return a role name that contains a hash of `parts`, because roles belong to the whole cluster."""
    return bounded(f"msrepl_{kind}_{_digest(12, *parts)}")


def table_roles(owner: str) -> str:
    """Return the common prefix of the roles that write tables of the database whose objects belong to `owner`."""
    return f"{role('table', owner)}_"


def table_role(owner: str, schema: str, table: str) -> str:
    """Return the role that writes one published or subscribed table."""
    return table_roles(owner) + _digest(12, schema, table)


def calls_role(owner: str) -> str:
    """Return the role with which a Subscriber calls published routines."""
    return f"{table_roles(owner)}calls"


def resolver_role(owner: str, artid: UUID) -> str:
    """Return the role with which a Publisher calls the SQL resolver of one article of a merge publication."""
    return f"{table_roles(owner)}resolver_{artid.hex[:12]}"


def filter_role(owner: str, artid: UUID) -> str:
    """Return the role with which a Publisher evaluates the filters of one article of a merge publication."""
    return f"{table_roles(owner)}filter_{artid.hex[:12]}"


#: Prefix of the names of our replication slots.
SLOT_PREFIX = "msrepl_"


def slot(topology: str, database: str) -> str:
    """Return the name of the replication slot of a Publisher database. Slots belong to the whole cluster, and their
    names can contain a-z, 0-9 and _ only, so a hash distinguishes names that were cut or altered.
    """
    head = re.sub(r"[^a-z0-9_]", "_", topology.lower())[:36]
    return f"{SLOT_PREFIX}{head}_{_digest(12, topology, database)}"
