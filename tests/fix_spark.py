"""One Spark session for every test that needs one, and one archive for those that only read it.

Each module that uses it has ``pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]``, so that
there is one JVM, however many workers pytest has.

Frames of tests are tiny: what Spark would spend on making them quick costs more than they do. So expressions are
interpreted, plans stay as they were made, and Java compiles once and simply. It does not verify the classes of Spark's
jars, which was a quarter of its work. Commands that tests begin as processes of their own, and the cluster, have
Spark's own settings; `tests/spark/fold` compares both.
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

#: For this process's Java and that of all processes that it begins.
_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    # classes alone are 150 MB: Java would look through all of its memory each time there are somewhat more of them
    " -XX:MetaspaceSize=256m"
)

#: What no test is about, and makes most of what a tiny query costs.
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
        "spark.buffer.pageSize": "1m",  # grows with the heap else, and every sort of a few rows takes one
        **INTERPRETED,
    },
)


#: Marks tests whose processes start Java of their own: another worker plays them than the one that has the
#: session. Each is another way to deploy, so none is a sample of the others.
OWN_SPARK = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.xdist_group("own spark"),
]


@pytest.fixture(scope="session", autouse=True)
def _plain_java() -> Iterator[None]:
    """Every Java of the tests starts quickly."""
    given = os.environ.get("JDK_JAVA_OPTIONS")
    os.environ["JDK_JAVA_OPTIONS"] = f"{given} {_JAVA}" if given else _JAVA
    yield
    if given is None:
        del os.environ["JDK_JAVA_OPTIONS"]
    else:
        os.environ["JDK_JAVA_OPTIONS"] = given


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark on two cores of this machine."""
    with session(SPARK_OPTIONS) as made:
        yield made


@pytest.fixture(scope="session")
def recorded_bank(
    server: EmbeddedServer, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RecordedBank]:
    """A topology that has worked, and its archive, for every test that only reads one."""
    from tests.spark.replay.recorded import recorded  # pyspark, which few tests need

    with recorded(server, spark, tmp_path_factory.mktemp("bank") / "archive") as made:
        yield made
