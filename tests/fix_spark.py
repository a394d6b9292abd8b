"""One Spark session for all tests that need one, and one archive for those that only read it.

Each module that uses it has ``pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]``, so that there is
one JVM for any number of pytest's workers.

Frames of tests are tiny: optimising them costs Spark more than it saves. So expressions are interpreted, plans are not
adapted, and Java compiles once and simply. It does not verify the classes of Spark's jars, which was a quarter of its
work. Commands that tests start as processes, and the cluster, use Spark's own settings; both are compared by
`tests/spark/fold`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from twopc.sim.spark.session import SparkOptions, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.replay.recorded import RecordedBank
    from twopc.server import EmbeddedServer

#: Options for this process's Java and that of all processes that it starts.
_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    # classes alone are 150 MB: Java would scan all of its memory each time their number grows
    " -XX:MetaspaceSize=256m"
)

#: Irrelevant for the tests, and most of the cost of a tiny query.
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
SPARK_OPTIONS = SparkOptions(
    master="local[2]",
    conf={
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.buffer.pageSize": "1m",  # it would grow with the heap, and every sort of a few rows allocates one
        **INTERPRETED,
    },
)


#: Marks of tests whose processes start their own Java: another worker than the session's plays them. Each is a
#: different deployment, so none is a sample of the others.
OWN_SPARK = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.xdist_group("own spark"),
]


@pytest.fixture(scope="session", autouse=True)
def _plain_java() -> Iterator[None]:
    """Let every Java process of the tests start quickly."""
    given = os.environ.get("JDK_JAVA_OPTIONS")
    os.environ["JDK_JAVA_OPTIONS"] = f"{given} {_JAVA}" if given else _JAVA
    yield
    if given is None:
        del os.environ["JDK_JAVA_OPTIONS"]
    else:
        os.environ["JDK_JAVA_OPTIONS"] = given


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Start Spark on two cores of this machine."""
    with session(SPARK_OPTIONS) as made:
        yield made


@pytest.fixture(scope="session")
def recorded_bank(
    server: EmbeddedServer, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RecordedBank]:
    """A topology after a workload, and its archive, for all tests that only read one."""
    from tests.spark.replay.recorded import recorded  # it imports pyspark, which few tests need

    with recorded(server, spark, tmp_path_factory.mktemp("bank") / "archive") as made:
        yield made
