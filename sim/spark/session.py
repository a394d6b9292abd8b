"""A Spark session with what the pipeline needs, on this machine or on a cluster.

No SparkContext and no RDD: all of it works through Spark Connect too.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from twopc.sim.spark.errors import ArchiveError, PipelineError, SparkMissingError
from twopc.sim.spark.java import Java, find_java, require_extra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.speculation": "false",
    "spark.task.maxFailures": "4",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.ansi.enabled": "true",
}
#: Besides its heap the driver needs so much.
_BESIDE_HEAP = 512 << 20
_UNITS = {"": 1 << 20, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """How Spark is begun."""

    master: str | None = None
    """None: ``SPARK_REMOTE``, or ``spark.master`` of `conf`, else all cores of this machine."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Goes over every setting of ours."""
    python: str | None = None
    """The executors' Python; None: this one on this machine, else the environment's."""
    package: Path | None = None
    """The project's archive for executors; None: made if the master is not local."""
    name: str = "twopc"

    @property
    def where(self) -> str:
        """The master that is meant."""
        remote = os.environ.get("SPARK_REMOTE", "")
        return self.master or self.conf.get("spark.master", "") or remote or "local[*]"


def is_local(master: str) -> bool:
    """Whether everything runs in this machine's one JVM."""
    return master == "local" or master.startswith("local[")


@contextmanager
def session(options: SparkOptions | None = None) -> Iterator[SparkSession]:
    """A session, stopped at the end if it was made here.

    Raises:
        SparkMissingError: no Java, too little memory, no master, unfit executors.
        PipelineError: another session is active in this process, with another master or heap.
    """
    options = options or SparkOptions()
    require_extra()
    with tempfile.TemporaryDirectory(prefix="twopc-spark-") as folder:
        settings = _settings(options, Path(folder))
        with _environment(options, settings):
            running = _running(options, settings)
            if running is not None:
                yield running
                return
            with translated():
                spark = _begun(options, settings)
            try:
                if not is_local(options.where):
                    with translated():
                        _fit(spark)
                yield spark
            finally:
                spark.stop()


def _settings(options: SparkOptions, folder: Path) -> dict[str, str]:
    """All that is set, ours first."""
    master = options.where
    settings = dict(_DEFAULTS)
    if is_local(master):
        settings["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
        settings["spark.driver.memory"] = "2g"
    if is_local(master) or master.startswith("spark://127."):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if is_local(master) or master.startswith("spark://"):
        settings["spark.driver.extraJavaOptions"] = _quiet(folder)
        # a relative one is made wherever the process happens to be
        settings["spark.sql.warehouse.dir"] = str(folder / "warehouse")
    settings |= _beside_ours(settings, options.conf)
    if options.package is not None:
        settings["spark.submit.pyFiles"] = str(options.package)
    elif not is_local(master):
        settings["spark.submit.pyFiles"] = str(pack(folder / "twopc.zip"))
    return settings


def _beside_ours(own: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """What is given, where ours is a list with ours before it."""
    name = "spark.driver.extraJavaOptions"
    both = " ".join(each[name] for each in (own, given) if name in each)
    return {**given, name: both} if both else dict(given)


def _quiet(folder: Path) -> str:
    """A Java option by which only errors are logged, from the first line on."""
    path = folder / "log4j2.properties"
    path.write_text(
        "rootLogger.level = error\n"
        "rootLogger.appenderRef.stderr.ref = console\n"
        # without a level of its own Spark takes this one for a shell, and says so
        "logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer\n"
        "logger.gateway.level = error\n"
        "appender.console.type = Console\n"
        "appender.console.name = console\n"
        "appender.console.target = SYSTEM_ERR\n"
        "appender.console.layout.type = PatternLayout\n"
        "appender.console.layout.pattern = %d{HH:mm:ss} spark %p %c{1}: %m%n\n",
        encoding="utf-8",
    )
    return f"-Dlog4j2.configurationFile=file:{path}"


@contextmanager
def _environment(options: SparkOptions, settings: Mapping[str, str]) -> Iterator[None]:
    """Java's place and the workers' Python, for as long as the session lives."""
    master = options.where
    requested: dict[str, str] = {}
    if not master.startswith("sc://"):
        requested["JAVA_HOME"] = str(find_java(os.environ).home)
    python = options.python or settings.get("spark.pyspark.python")
    if python or is_local(master):
        requested["PYSPARK_PYTHON"] = python or sys.executable
        requested["PYSPARK_DRIVER_PYTHON"] = sys.executable
    before = {name: os.environ.get(name) for name in requested}
    os.environ.update(requested)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def java_of(options: SparkOptions) -> Java | None:
    """The Java that a session begun so runs on; None: a remote one, through Connect."""
    return None if options.where.startswith("sc://") else find_java(os.environ)


def _running(options: SparkOptions, settings: Mapping[str, str]) -> SparkSession | None:
    """The active session, if it is such a one."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        active = SparkSession.active()  # of whatever thread
    except PySparkRuntimeError:
        return None
    for name, asked in (
        ("spark.master", options.where),
        ("spark.driver.memory", settings.get("spark.driver.memory")),
    ):
        given = name in options.conf or (name == "spark.master" and options.master is not None)
        has = active.conf.get(name, "")
        if given and asked != has:
            raise PipelineError(
                f"a Spark session with {name} {has or 'unset'} runs in this process already: stop it, or "
                f"ask for the same; {asked} needs another process"
            )
    return active


def _begun(options: SparkOptions, settings: Mapping[str, str]) -> SparkSession:
    """A new session."""
    from pyspark.sql import SparkSession

    master = options.where
    _reachable(master)
    if is_local(master):
        _enough_memory(settings["spark.driver.memory"])
    builder: Any = SparkSession.builder
    # what another session of this process asked for is not asked for again
    builder = type(builder)()
    if master.startswith("sc://"):
        return _connected(builder, master, settings)
    builder = builder.master(master).appName(options.name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    made: SparkSession = builder.getOrCreate()
    heap = settings.get("spark.driver.memory")
    if is_local(master) and heap and "spark.driver.memory" in options.conf:
        _has_heap(made, heap)
    return made


def _connected(builder: Any, master: str, settings: Mapping[str, str]) -> SparkSession:
    """A session through Spark Connect: what was set when its server began cannot be set."""
    try:
        builder = builder.remote(master)
        made: SparkSession = builder.getOrCreate()
    except ImportError as error:
        raise SparkMissingError(
            f"--master {master} needs pip install 'twopc[spark,connect]' ({error})"
        ) from error
    for name, value in settings.items():
        if name.startswith("spark.sql.") and made.conf.isModifiable(name):
            made.conf.set(name, value)
    made.addArtifacts(settings["spark.submit.pyFiles"], pyfile=True)
    return made


def _reachable(master: str) -> None:
    """Whether somebody listens at one of the standalone masters, or the Connect server, that are named."""
    scheme, _, rest = master.partition("://")
    default = {"spark": 7077, "sc": 15002}.get(scheme)
    if default is None:
        return
    for each in rest.partition("/")[0].split(","):
        host, _, port = each.rpartition(":") if re.search(r":\d+$", each) else (each, "", default)
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=20).close()
        except OSError:
            continue
        return
    raise SparkMissingError(
        f"the master {master} cannot be reached: is it running, and is this its address?"
    )


def _bytes(text: str) -> int:
    """``2g`` as bytes; Spark takes a bare number for MiB."""
    match = re.fullmatch(r"(\d+)([bkmgt]?)b?", text.strip().lower())
    if match is None:
        raise PipelineError(
            f"spark.driver.memory={text!r} is not an amount: write it as 2g or 512m"
        )
    return int(match[1]) * _UNITS[match[2]]


def _enough_memory(heap: str) -> None:
    free = psutil.virtual_memory().available
    if free < _bytes(heap) + _BESIDE_HEAP:
        raise SparkMissingError(
            f"too little memory for Spark: {free / (1 << 30):.1f} GiB are free, and the driver is given "
            f"{heap}; give less by --conf spark.driver.memory=1g"
        )


def _has_heap(spark: SparkSession, heap: str) -> None:
    """A JVM that ran before keeps its heap; Spark says nothing of it."""
    has = spark.conf.get("spark.driver.memory", "")
    if has != heap:
        spark.stop()
        raise PipelineError(
            f"Spark's JVM runs in this process already, with {has or 'its own'} of memory: {heap} needs "
            "another process"
        )


def _fit(spark: SparkSession) -> None:
    """Whether an executor has what tasks import, in a Python as this one."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    frame = spark.range(1, numPartitions=1).mapInArrow(_versions, "python string, missing string")
    answer = frame.collect()[0]
    if answer["python"] != here:
        raise SparkMissingError(
            f"executors run Python {answer['python']} and this is {here}: set --python to one of the same "
            "version on every worker"
        )
    if answer["missing"]:
        raise SparkMissingError(
            f"an executor lacks {answer['missing']}: install twopc[spark] into its Python, or name another "
            "by --python"
        )


def _versions(batches: Iterator[Any]) -> Iterator[Any]:
    """Runs at an executor."""
    import importlib  # at an executor, as the rest
    import platform  # likewise

    import pyarrow

    missing = []
    for name in ("adbc_driver_postgresql", "psycopg", "twopc.sim"):
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(name)
    for _ in batches:
        yield pyarrow.RecordBatch.from_pydict(
            {
                "python": [".".join(platform.python_version_tuple()[:2])],
                "missing": [", ".join(missing)],
            }
        )


# -- errors ---------------------------------------------------------------------------------------

#: What Spark says, and what is said instead; the first that fits.
_KNOWN: tuple[tuple[str, type[PipelineError], str], ...] = (
    (
        r"OutOfMemoryError|Java heap space|GC overhead",
        SparkMissingError,
        "Spark ran out of memory: give more by --conf spark.driver.memory=4g (on a cluster "
        "spark.executor.memory), or read fewer commands at a time by --segment",
    ),
    (
        r"PYTHON_VERSION_MISMATCH",
        SparkMissingError,
        "executors run another Python than this one: set --python to one of the same version on every worker",
    ),
    (
        r"All masters are unresponsive|Application has been killed|SparkContext was shut down"
        r"|Master removed our application|stopped SparkContext",
        SparkMissingError,
        "the cluster has lost its master or every executor: see the logs of its workers",
    ),
    (
        r"(?s)is not a Parquet file|CANNOT_READ_FILE_FOOTER|FAILED_READ_FILE|Could not read footer"
        r"|FileNotFoundException|PATH_NOT_FOUND",
        ArchiveError,
        "a file of the archive cannot be read: twopc archive show --verify names it",
    ),
)
_OURS = re.compile(r"twopc\.(?:sim\.spark\.)?errors\.(\w+): ([^\n]+)")


@contextmanager
def translated() -> Iterator[None]:
    """Within the block Spark's exceptions that can be foreseen are `PipelineError`."""
    try:
        yield
    except PipelineError:
        raise
    except Exception as error:
        better = _better(error)
        if better is None:
            raise
        raise better from error


def _better(error: Exception) -> PipelineError | None:
    """What is to be said of one of Spark's exceptions; None: nothing is known of it."""
    module = type(error).__module__
    if not module.startswith(("pyspark.", "py4j.")):
        return None
    text = str(error)
    own = _OURS.findall(text)
    if own:
        kind, message = own[-1]
        return ArchiveError(message) if kind == "ArchiveError" else PipelineError(message)
    for pattern, made, message in _KNOWN:
        if re.search(pattern, text):
            return made(message)
    lines = [line.strip() for line in text.splitlines()]
    operational = [line for line in lines if re.match(r"(psycopg|adbc_driver_manager)\.", line)]
    if operational:
        return PipelineError(f"the database cannot be read: {operational[-1].partition(': ')[2]}")
    return None


#: Kinds of files that are; what a compiler or an editor left is not.
_KINDS = (".py", ".sql", ".json", ".html", ".css", ".js", ".yaml", ".txt", ".typed")
#: The same sources make the same bytes: no file's own time is kept.
_TIME = (1980, 1, 1, 0, 0, 0)


def pack(target: Path) -> Path:
    """Write the project's package as a zip; the same sources give the same bytes.

    Executors import from it, and SQL texts are read from it. What the project requires is not in it:
    executors' Python must have that.

    Returns:
        The target.
    """
    members = sorted(_members(files("twopc"), "twopc"))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in members:
            entry = zipfile.ZipInfo(name, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, file.read_bytes())
    return target


def _members(folder: Traversable, name: str) -> list[tuple[str, Traversable]]:
    """The files below a package, by their places in the zip."""
    results = []
    for each in folder.iterdir():
        inner = f"{name}/{each.name}"
        if each.is_dir() and each.name != "__pycache__":
            results += _members(each, inner)
        elif each.name.endswith(_KINDS):
            results.append((inner, each))
    return results
