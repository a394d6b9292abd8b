"""Options of the commands that use Spark, and creation of its session."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twopc.signals import ending_signals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twopc.sim.spark.session import SparkOptions

ArchivePath = Annotated[Path, typer.Argument(metavar="ARCHIVE", help="A folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFlags:
    """Options that configure Spark."""

    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Spark master: local[4], spark://…, yarn, k8s://…, sc://…. Default: local[*].",
        ),
    ] = None
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A Spark setting.")
    ] = None
    python: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="Python interpreter of Spark's executors. Default: this one."
        ),
    ] = None
    package: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The project as a zip for executors. Default: created."),
    ] = None

    def options(self) -> SparkOptions:
        """Return the options of a session.

        Raises:
            SparkMissingError: the extra is not installed.
            typer.BadParameter: a setting is no ``KEY=VALUE``.
        """
        from twopc.sim.spark.java import require_extra

        require_extra()
        from twopc.sim.spark.session import SparkOptions

        settings = {}
        for each in self.conf or ():
            key, equals, value = each.partition("=")
            if not key or not equals:
                raise typer.BadParameter(f"write KEY=VALUE, not {each!r}", param_hint="--conf")
            settings[key] = value
        return SparkOptions(
            master=self.master, conf=settings, python=self.python, package=self.package
        )


@contextmanager
def begun(options: SparkOptions, *, quiet: bool = False) -> Iterator[SparkSession]:
    """Yield a session; describe it on standard error once it runs.

    Raises:
        SparkMissingError: Spark cannot be started.
    """
    from twopc.sim.spark.session import java_of, session, translated

    handled = ending_signals()
    _handle_signals(handled)
    started = time.monotonic()
    java = None if quiet else java_of(options)  # before the session, which sets JAVA_HOME
    if not quiet and sys.stderr.isatty():
        print("spark starts …", end="\r", file=sys.stderr, flush=True)
    with session(options) as spark:
        if not quiet:
            took = time.monotonic() - started
            words = [f"spark {spark.version}", options.where]
            words += [str(java)] if java is not None else []
            print(" · ".join([*words, f"started in {took:.1f} s"]), file=sys.stderr, flush=True)
        _handle_signals(handled)
        try:
            with translated():
                yield spark
        except KeyboardInterrupt:
            # otherwise Java prints a stack trace for each job that is cancelled
            with suppress(Exception):
                spark.sparkContext.setLogLevel("OFF")
            raise


def _handle_signals(handled: Collection[signal.Signals]) -> None:
    """Let these signals raise `KeyboardInterrupt`, in place of PySpark's handler and the system's; ignore the others.

    PySpark's handler calls Java even while another call is being answered, which prints tracebacks. The system's
    handler of SIGTERM would leave Spark's temporary folder and files of the archive.
    """
    logging.getLogger().addFilter(_is_no_interrupt)
    if threading.current_thread() is threading.main_thread():
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.default_int_handler if each in handled else signal.SIG_IGN)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Return whether a log message is not Py4J's about an interrupt, which it raises too."""
    return record.msg != "KeyboardInterrupt while sending command."


def seqno(text: str, hint: str) -> int:
    """Parse a sequence number, written as ``0/1770488`` or as an integer."""
    from twopc.lsn import lsn_value

    try:
        value = lsn_value(text) if "/" in text else int(text)
    except ValueError:
        value = -1
    if not 0 <= value < 1 << 63:
        raise typer.BadParameter(f"write 0/1770488 or a number, not {text!r}", param_hint=hint)
    return value
