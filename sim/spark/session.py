"""Creation of Spark sessions with the settings that the pipeline needs, on this machine or on a cluster.

The pipeline uses neither SparkContext nor RDDs, so all of it also works through Spark Connect.
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
#: Memory that the driver needs in addition to its heap, in bytes.
_NON_HEAP = 512 << 20
_UNITS = {"": 1 << 20, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """How a Spark session is created."""

    master: str | None = None
    """None: ``SPARK_REMOTE``, or ``spark.master`` of `conf`, else all cores of this machine."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Spark settings that override the pipeline's own."""
    python: str | None = None
    """The executors' Python. None: this process's own if the master is local, else that of the environment."""
    package: Path | None = None
    """The project's package as a zip for executors. None: it is created if the master is not local."""

    @property
    def where(self) -> str:
        """The master that the options and the environment select."""
        remote = os.environ.get("SPARK_REMOTE", "")
        return self.master or self.conf.get("spark.master", "") or remote or "local[*]"


def is_local(master: str) -> bool:
    """Return whether driver and executors share one JVM on this machine."""
    return master == "local" or master.startswith("local[")


@contextmanager
def session(options: SparkOptions | None = None) -> Iterator[SparkSession]:
    """Yield a Spark session, and stop it at the end if it was created here.

    Raises:
        SparkMissingError: there is no Java, too little memory, no reachable master, or an executor is unsuitable.
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
                spark = _create(options, settings)
            try:
                if not is_local(options.where):
                    with translated():
                        _check_executors(spark)
                yield spark
            finally:
                spark.stop()


def _settings(options: SparkOptions, folder: Path) -> dict[str, str]:
    """Return all settings of the session: the pipeline's defaults, overridden by those of the options."""
    master = options.where
    settings = dict(_DEFAULTS)
    if is_local(master):
        settings["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
        settings["spark.driver.memory"] = "2g"
    if is_local(master) or master.startswith("spark://127."):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if is_local(master) or master.startswith("spark://"):
        settings["spark.driver.extraJavaOptions"] = _error_log_option(folder)
        # a relative path would depend on the process's working directory
        settings["spark.sql.warehouse.dir"] = str(folder / "warehouse")
    settings |= _merged_settings(settings, options.conf)
    if options.package is not None:
        settings["spark.submit.pyFiles"] = str(options.package)
    elif not is_local(master):
        settings["spark.submit.pyFiles"] = str(pack(folder / "twopc.zip"))
    return settings


def _merged_settings(own: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the given settings; Java options are appended to the pipeline's own."""
    name = "spark.driver.extraJavaOptions"
    both = " ".join(each[name] for each in (own, given) if name in each)
    return {**given, name: both} if both else dict(given)


def _error_log_option(folder: Path) -> str:
    """Return a Java option that limits logging to errors from the first line on."""
    path = folder / "log4j2.properties"
    path.write_text(
        "rootLogger.level = error\n"
        "rootLogger.appenderRef.stderr.ref = console\n"
        # without a level of its own Spark treats the gateway as a shell, and prints a notice
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
    """Set ``JAVA_HOME`` and the workers' Python in the environment for the lifetime of the session."""
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
    """Return the Java that a session with these options runs on; None for a remote session through Connect."""
    return None if options.where.startswith("sc://") else find_java(os.environ)


def _running(options: SparkOptions, settings: Mapping[str, str]) -> SparkSession | None:
    """Return the active session if there is one; raise `PipelineError` if its master or heap is not the one given."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        active = SparkSession.active()  # active in any thread
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


def _create(options: SparkOptions, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    master = options.where
    _check_reachable(master)
    if is_local(master):
        _check_memory(settings["spark.driver.memory"])
    builder: Any = SparkSession.builder
    # a new builder, without the options of earlier sessions of this process
    builder = type(builder)()
    if master.startswith("sc://"):
        return _connect(builder, master, settings)
    builder = builder.master(master).appName("twopc")
    for name, value in settings.items():
        builder = builder.config(name, value)
    made: SparkSession = builder.getOrCreate()
    heap = settings.get("spark.driver.memory")
    if is_local(master) and heap and "spark.driver.memory" in options.conf:
        _check_heap(made, heap)
    return made


def _connect(builder: Any, master: str, settings: Mapping[str, str]) -> SparkSession:
    """Create a session through Spark Connect; settings that are fixed when its server starts are skipped."""
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


def _check_reachable(master: str) -> None:
    """Raise `SparkMissingError` if no standalone master or Connect server at the address accepts connections."""
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
    """Parse an amount such as ``2g``; like Spark, take a bare number as MiB."""
    match = re.fullmatch(r"(\d+)([bkmgt]?)b?", text.strip().lower())
    if match is None:
        raise PipelineError(
            f"spark.driver.memory={text!r} is not an amount: write it as 2g or 512m"
        )
    return int(match[1]) * _UNITS[match[2]]


def _check_memory(heap: str) -> None:
    free = psutil.virtual_memory().available
    if free < _bytes(heap) + _NON_HEAP:
        raise SparkMissingError(
            f"too little memory for Spark: {free / (1 << 30):.1f} GiB are free, and the driver is given "
            f"{heap}; give less by --conf spark.driver.memory=1g"
        )


def _check_heap(spark: SparkSession, heap: str) -> None:
    """Raise `PipelineError` if a JVM started earlier keeps another heap, which Spark does not report."""
    has = spark.conf.get("spark.driver.memory", "")
    if has != heap:
        spark.stop()
        raise PipelineError(
            f"Spark's JVM runs in this process already, with {has or 'its own'} of memory: {heap} needs "
            "another process"
        )


def _check_executors(spark: SparkSession) -> None:
    """Raise `SparkMissingError` unless executors run this version of Python and can import what tasks need."""
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
    """Return an executor's Python version and its missing modules; runs at an executor."""
    import importlib  # imported at an executor, as the others
    import platform  # imported at an executor too

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

#: Patterns of Spark's messages, and the errors that replace them; the first match counts.
_KNOWN: tuple[tuple[str, type[PipelineError], str], ...] = (
    (
        r"OutOfMemoryError|Java heap space|GC overhead",
        SparkMissingError,
        "Spark ran out of memory: give more by --conf spark.driver.memory=4g (on a cluster "
        "spark.executor.memory), or read fewer commands at a time by --segment",
    ),
    (
        r"No space left on device|Disk quota exceeded",
        PipelineError,
        "no space is left where Spark writes: in the archive, or in the folder of spark.local.dir",
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
    """Replace foreseeable exceptions of Spark in the block by `PipelineError`."""
    try:
        yield
    except PipelineError:
        raise
    except Exception as error:
        better = _known_error(error)
        if better is None:
            raise
        raise better from error


def _known_error(error: Exception) -> PipelineError | None:
    """Return the error that replaces an exception of Spark; None if the exception is not a known one."""
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


#: Suffixes of the packed files; files of compilers and editors are left out.
_KINDS = (".py", ".sql", ".json", ".html", ".css", ".js", ".yaml", ".txt", ".typed")
#: Fixed time of all members, so that the same sources give the same bytes.
_TIME = (1980, 1, 1, 0, 0, 0)


def pack(target: Path) -> Path:
    """Write the project's package as a zip; the same sources give the same bytes.

    Executors import the package from the zip, and read SQL texts from it. The project's dependencies are not
    included: the executors' Python must have them.

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
    """Return the files below a package, with their names in the zip."""
    results = []
    for each in folder.iterdir():
        inner = f"{name}/{each.name}"
        if each.is_dir() and each.name != "__pycache__":
            results += _members(each, inner)
        elif each.name.endswith(_KINDS):
            results.append((inner, each))
    return results
