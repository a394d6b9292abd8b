"""``twopc audit``: compare an archive with live nodes."""

from __future__ import annotations

import json
import secrets
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from twopc.sim.cli.command import command
from twopc.sim.cli.connection_strings import parse_nodes
from twopc.sim.cli.exits import PASS, SAFETY, UNKNOWN
from twopc.sim.cli.place import NamedNodes
from twopc.sim.cli.spark_options import (
    ArchivePath,
    Json,
    SparkFlags,
    begun,
)

if TYPE_CHECKING:
    from twopc.sim.spark.archive import Archive
    from twopc.sim.spark.audit.report import AuditReport

_ROOT = Path(".twopc/audits")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """Options of ``twopc audit``."""

    archive: ArchivePath
    nodes: NamedNodes
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS",
            help="atomic, echo, delivered, order, versions or rows. Repeatable.",
        ),
    ] = None
    witness: Annotated[
        Literal["read", "install", "remove"],
        typer.Option(
            help="Read, install or remove the witness at each Subscriber, which records what agents do."
        ),
    ] = "read"
    allow_unexamined: Annotated[
        bool,
        typer.Option(
            "--allow-unexamined", help="Do not exit with 3 if something cannot be examined."
        ),
    ] = False
    drive: Annotated[
        bool, typer.Option("--drive", help="Deliver changes during the check, if no agents run.")
    ] = False
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="Maximum number of findings shown.")
    ] = 100
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for all findings. Default: .twopc/audits/…."),
    ] = None
    as_json: Json = False
    spark: SparkFlags


@command
def audit(options: AuditOptions) -> None:
    """Check what was distributed against the rows at the nodes, while they are in use.

    Delivery is checked by a witness at each Subscriber: install it, let the agents run, accumulate, and audit.
    """
    spark = options.spark.options()
    from twopc.sim.spark.archive import Archive
    from twopc.sim.spark.audit.report import CLASSES, AuditRequest
    from twopc.sim.spark.audit.report import audit as look

    for kind in options.only or ():
        if kind not in CLASSES:
            raise typer.BadParameter(
                f"{kind!r} is none of {', '.join(CLASSES)}", param_hint="--only"
            )
    chosen = [kind for kind in CLASSES if not options.only or kind in options.only]
    nodes = parse_nodes(options.nodes)
    if options.witness == "remove":
        _remove_witness(nodes)
        return
    archive = Archive.open(options.archive)
    if options.witness == "install":
        _install_witness(archive, nodes)
        return
    folder = options.out or _ROOT / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
    if folder.exists():
        raise typer.BadParameter(f"{folder} is there already", param_hint="--out")
    places = [word for node in nodes for word in ("--node", f"{node}=…")]
    repro = shlex.join(["twopc", "audit", str(options.archive), *places])
    requested = AuditRequest(
        only=chosen, limit=options.limit, drive=options.drive, repro=repro, out=folder
    )
    with archive.reading(), begun(spark, quiet=options.as_json) as session:
        report = look(session, archive, nodes, requested)
    if options.as_json:
        document = _json(report, archive, repro, folder)
        print(json.dumps(document, ensure_ascii=False, default=str))
    else:
        _tell(report, chosen, folder, archive)
    raise typer.Exit(_code(report, options.allow_unexamined))


def _code(report: AuditReport, allow_unexamined: bool) -> int:
    if report.total:
        return SAFETY
    return PASS if allow_unexamined or not report.unexamined else UNKNOWN


def _remove_witness(given: Mapping[str, str]) -> None:
    """Remove the witness at all given nodes, whatever the state of the archive."""
    from twopc.sim.spark.audit import witness
    from twopc.sim.spark.errors import PipelineError

    done, failed = [], []
    for name, dsn in given.items():
        try:
            done += witness.remove({name: dsn})
        except PipelineError as error:
            failed.append(f"{name}: {error}")
    print(f"removed at {', '.join(done)}" if done else "there was none")
    for each in failed:
        print(each, file=sys.stderr)
    if failed:
        raise typer.Exit(UNKNOWN)


def _install_witness(archive: Archive, given: Mapping[str, str]) -> None:
    """Install the witness at the Subscribers."""
    from twopc.sim.spark.audit import witness
    from twopc.sim.spark.audit.gather import sites

    result, known = sites(given, archive)
    subscribers = {name: given[name] for name in result.subscribers}
    done = witness.install(subscribers, known)
    print(
        f"witnessed at {', '.join(done) or 'no Subscriber'}: agents call their procedures row by row there, until "
        "twopc audit --witness remove"
    )
    for each in result.unexamined:
        print(each, file=sys.stderr)
    if result.unexamined:
        raise typer.Exit(UNKNOWN)


def _tell(report: AuditReport, chosen: Sequence[str], folder: Path, archive: Archive) -> None:
    """Print the classes in one line, the findings, and what was not examined."""
    keys = _keys(archive)
    words = []
    for kind in chosen:
        count = report.classes.get(kind)
        words.append(
            f"– {kind}" if count is None else f"✗ {kind}: {count:,}" if count else f"✓ {kind}"
        )
    print("  " + "  ".join(words))
    for each in report.findings:
        print(f"  ✗ {each['class']:<9}  {_where(each, keys)}: {each['detail']}{_gid(each)}")
        print(f"             again: {each['repro']}")
    if report.left_out:
        print(f"  and {report.left_out:,} more, in {folder}/findings")
    for text in report.unexamined:
        print(f"  ? {text}")


def _keys(archive: Archive) -> dict[str, list[str]]:
    """Return the key columns of each article by its name."""
    results = {}
    for row in archive.manifest.articles:  # the newest shape is the last
        schema, table = row["source_schema"], row["source_object"]
        name = table if schema == "public" else f"{schema}.{table}"
        results[name] = [row["columns"][at] for at in row["key"]]
    return results


def _where(finding: Mapping[str, Any], keys: Mapping[str, Sequence[str]]) -> str:
    """Return the place of a finding, as ``account id=17 at south``; a finding may concern no row."""
    article, key = finding["article"] or "a transaction", finding["key"]
    if key is None:
        return f"{article} at {finding['node']}"
    columns = keys.get(article) or [""] * len(key)
    text = ", ".join(f"{column}={value}" for column, value in zip(columns, key, strict=False))
    return f"{article} {text} at {finding['node']}"


def _gid(finding: Mapping[str, Any]) -> str:
    return f" [{finding['gid']}]" if finding["gid"] else ""


def _json(report: AuditReport, archive: Archive, repeated: str, folder: Path) -> dict[str, Any]:
    return {
        "command": "audit",
        "archive": archive.name,
        "range": {"after": report.after, "upto": report.upto},
        "classes": report.classes,
        "findings": report.findings,
        "left_out": report.left_out,
        "unexamined": report.unexamined,
        "seconds": round(report.seconds, 3),
        "directory": str(folder),
        "repro": repeated,
    }
