"""Tests of the plugin's settings, its messages about mistakes, and the servers that it accepts."""

from __future__ import annotations

import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from tests.plugin.running import ROOT, Project

pytest_plugins = ["pytester"]


def test_what_is_wrong_is_said_in_one_line(project: Project) -> None:
    """A mistake is reported in one line, without a traceback through the plugin."""
    project.test(
        """
        import pytest

        @pytest.mark.twopc(subscriber=3)
        def test_option(twopc): pass

        @pytest.mark.twopc(policy="overwrite")
        def test_policy(twopc): pass

        @pytest.mark.twopc(faults=["crash"])
        def test_faults(twopc): pass

        @pytest.mark.twopc(faults=[{"at": "coordinator.decision_logged", "do": "crash coordinator", "nth": 0}])
        def test_nth(twopc): pass

        def test_same_id(twopc):
            for _ in range(2):
                twopc.fault(id="one", at="coordinator.decision_logged", do="crash coordinator")

        @pytest.mark.twopc(3)
        def test_no_name(twopc): pass

        @pytest.mark.twopc(reset="burn")
        def test_reset(twopc): pass

        @pytest.mark.twopc(subscribers=0)
        def test_nobody(twopc): pass

        @pytest.mark.twopc(shipping="by sea")
        def test_shipping(twopc): pass

        @pytest.mark.twopc(commit="presumed_nothin")
        def test_commit(twopc): pass

        @pytest.mark.twopc(isolation="serialisable")
        def test_isolation(twopc): pass

        @pytest.mark.twopc(subscribers="north")
        def test_letters(twopc): pass

        @pytest.mark.twopc(lock_timeout_ms="5s")
        def test_lock_timeout(twopc): pass

        def test_isolation_of_a_session(twopc): twopc.session("sub1", isolation="serialisable")
        """
    )
    result = project.run("-q")
    result.stdout.fnmatch_lines(
        [
            "*@pytest.mark.twopc: no option 'subscriber', did you mean 'subscribers'? options are subscribers, *",
            "*@pytest.mark.twopc: policy='overwrite'*",
            "*faults=?'crash'?: each is written as in scenario files*",
            "*nth is the number of an arrival, from 1: not 0*",
            "*takes named options only*",
            "*reset='burn': use one of 'clone', 'truncate', 'none'*",
            "*subscribers=0: a topology has at least one Subscriber*",
            "*shipping='by sea': use one of 'eager', 'lazy'*",
            "*commit='presumed_nothin': use one of 'presumed_abort', *",
            "*isolation='serialisable': use one of 'read committed', *",
            "*subscribers='north': a number, or a list: ?'north'?*",
            "*lock_timeout_ms='5s': milliseconds, from 1*",
            "*there is a fault 'one' already: give this one another id*",
            "*ConfigurationError: isolation 'serialisable': use one of read committed, *",
        ]
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--twopc-seed=x"], "--twopc-seed: it is a number from 0, not 'x'"),
        (
            ["--twopc-timeout=5"],
            "--twopc-timeout: a duration is written as 500ms, 5s or 2m, not '5'",
        ),
        (["--twopc-pg=/nowhere"], "/nowhere"),
        (["--twopc-pg=postgresql://nobody@127.0.0.1:1/x"], "127.0.0.1:1 cannot be reached"),
    ],
)
def test_options_that_are_wrong(project: Project, options: list[str], said: str) -> None:
    """A wrong option is reported with its name or value, and pytest fails."""
    project.test("def test_it(twopc): pass")
    result = project.run(*options)
    assert said in result.stdout.str() + result.stderr.str()
    assert result.ret != 0


def test_which_setting_holds(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option goes before the environment, the ini file and pyproject.toml, in that order."""
    project.test(
        """
        import pytest

        @pytest.mark.parametrize("fresh", [1])
        def test_seed(request, fresh):
            from twopc.sim.pytest_plugin.config import settings_of
            print("seed is", settings_of(request.config).seed)
        """
    )

    def seed(*options: str) -> str:
        shown = project.run("-q", "-s", *options).stdout.str()
        found = re.search(r"seed is (\w+)", shown)
        assert found, shown
        return found[1]

    (project.pytester.path / "pyproject.toml").write_text(
        "[tool.twopc]\nseed = 1\n", encoding="utf-8"
    )
    assert seed() == "1"
    assert seed("-o", "twopc_seed=2") == "2"
    monkeypatch.setenv("TWOPC_SEED", "3")
    assert seed("-o", "twopc_seed=2") == "3"
    assert seed("-o", "twopc_seed=2", "--twopc-seed=4") == "4"


def test_repeating(project: Project) -> None:
    """`--twopc-repeat` repeats every test that uses twopc, and no other."""
    project.test(
        """
        def test_uses(twopc): pass
        def test_uses_not(): pass
        """
    )
    result = project.run("-v", "--twopc-repeat", "3")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["*test_uses?run3? PASSED*"])


def test_a_server_of_ones_own(project: Project) -> None:
    """The fixture `twopc_server` may return anything that gives a connection string."""
    project.pytester.makeconftest(
        """
        import pytest
        from twopc.sim.testing import Server
        from twopc.server import EmbeddedServer

        class Container:
            def __init__(self, server): self.server = server
            def get_connection_url(self):
                from psycopg.conninfo import conninfo_to_dict
                p = conninfo_to_dict(self.server.dsn("postgres", tcp=True))
                return f"postgresql+psycopg2://{p['user']}:{p['password']}@{p['host']}:{p['port']}/postgres"

        class Process:
            def __init__(self, server):
                from psycopg.conninfo import conninfo_to_dict
                self.__dict__ |= conninfo_to_dict(server.dsn("postgres", tcp=True))

        @pytest.fixture(scope="session")
        def running():
            import psycopg
            with EmbeddedServer.start() as server:
                yield server
                with psycopg.connect(server.superuser_dsn("postgres")) as connection:
                    for query in (
                        "select datname from pg_database where datname ~ 'twopct'",
                        "select rolname from pg_roles where rolname ~ 'msrepl'",
                        "select slot_name from pg_replication_slots",
                    ):
                        assert connection.execute(query).fetchall() == []

        @pytest.fixture(scope="session", params=["dsn", "server", "container", "process"])
        def twopc_server(request, running):
            return {
                "dsn": running.superuser_dsn("postgres"),
                "server": Server(dsn=running.superuser_dsn("postgres")),
                "container": Container(running),
                "process": Process(running),
            }[request.param]

        @pytest.fixture(scope="session")
        def twopc_template():
            return ["create table account (id int primary key, balance int)", "insert into account values (1, 1)"]
        """
    )
    project.test(
        """
        import pytest

        def test_it(twopc):
            session = twopc.session("sub1")
            session.execute("update account set balance = 2")
            session.commit()
            twopc.settle()
            twopc.assert_converged()
        """
    )
    project.run("-q").assert_outcomes(passed=4)


def test_servers_that_will_not_do(project: Project) -> None:
    """A server with a wrong setting, or an object that is no server, is refused with a remedy."""
    project.pytester.makeconftest(
        """
        import pytest
        from twopc.server import EmbeddedServer

        @pytest.fixture(scope="session", params=[{"max_prepared_transactions": "1"}, {"wal_level": "replica"}, None])
        def twopc_server(request):
            if request.param is None:
                yield object()
                return
            with EmbeddedServer.start(settings=request.param) as server:
                yield server.superuser_dsn("postgres")
        """
    )
    project.test("def test_it(twopc): pass")
    result = project.run("-q")
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(
        [
            "*As a superuser: ALTER SYSTEM SET max_prepared_transactions = 90; -- and restart it",
            "*ALTER SYSTEM SET wal_level = logical;*",
            "*twopc_server gave object, which is no server: return twopc.sim.testing.Server(dsn=...)*",
        ]
    )


def test_each_worker_has_a_server(project: Project) -> None:
    """Each worker has a server; names of databases, gids and connections contain the worker."""
    project.test(
        """
        import os
        import pytest

        @pytest.mark.parametrize("n", range(6))
        def test_it(twopc, n, record_property):
            worker = os.environ["PYTEST_XDIST_WORKER"]
            session = twopc.session("sub1")
            session.execute("update account set balance = 1")
            assert f"_{worker}x" in session.gid
            found = twopc.node("sub1").query(
                "select application_name, datname from pg_stat_activity where query ~ 'update account' and pid <> pg_backend_pid()")
            assert all(f"_{worker}x" in row["application_name"] + row["datname"] for row in found)
            record_property("where", f"{worker} {twopc.node('pub').query('show data_directory')[0]['data_directory']}")
        """
    )
    result = project.run("-q", "-n", "2", "--dist=each", "--junit-xml=junit.xml")
    result.assert_outcomes(passed=12)
    suite = ElementTree.parse(project.pytester.path / "junit.xml")
    where = {p.get("value") for p in suite.iter("property") if p.get("name") == "where"}
    assert len(where) == 2


def test_importing_starts_nothing() -> None:
    """Importing the plugin loads no heavy module; it has no autouse fixture or loop policy."""
    script = (
        "import sys, twopc.sim.pytest_plugin, twopc.sim.testing; "
        "heavy = {'psycopg', 'pydantic', 'anyio', 'rich', 'ruamel', 'hypothesis', 'asyncio', 'structlog', 'psutil', "
        "'numpy', 'matplotlib', 'pandas', 'pyspark', 'sqlglot', 'simpy', 'typer', 'sqlalchemy', 'alembic', 'django'} "
        "& set(sys.modules); "
        "print(sorted(heavy))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "[]"
    sources = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "sim" / "pytest_plugin").glob("*.py")
    )
    assert "autouse" not in sources
    assert "event_loop_policy" not in sources


def test_without_hypothesis() -> None:
    """Without Hypothesis, only what needs it cannot be imported; the error names the package."""
    script = (
        "import sys; sys.modules['hypothesis'] = None; from twopc.sim.testing import *; "
        "print(Server.__name__, end=' '); from twopc.sim.testing import TopologyMachine"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.stdout == "Server "
    assert "TopologyMachine needs Hypothesis: pip install 'twopc[hypothesis]'" in ran.stderr


def test_what_a_topology_loads(project: Project) -> None:
    """A topology loads no module for simulation, charts or scenario files."""
    project.test(
        """
        import sys

        def test_it(twopc):
            session = twopc.session("sub1")
            session.execute("update account set balance = 1")
            session.commit()
            twopc.settle()
            twopc.assert_converged()
            unneeded = {
                "numpy", "matplotlib", "pandas", "pyspark", "sqlglot", "simpy", "typer", "pydantic", "ruamel", "hdrh",
                "sqlalchemy", "alembic", "django",
            }
            assert unneeded & {*sys.modules} == set()
        """
    )
    project.run_apart("-q", "-p", "no:hypothesispytest").assert_outcomes(passed=1)


def test_what_help_says(project: Project) -> None:
    """The help of pytest lists all options, ini values, marks and fixtures, which have a prefix."""
    shown = project.run("--help").stdout.str()
    for name in ("pg", "seed", "repeat", "orders", "keep", "report", "timeout"):
        assert f"--twopc-{name}" in shown
        assert f"twopc_{name}" in shown
    assert "--twopc-accept" in shown
    assert "--twopc-any-client" in shown
    marks = project.run("--markers").stdout.str()
    assert "@pytest.mark.twopc(" in marks
    assert "@pytest.mark.twopc_scenario(" in marks
    fixtures = project.run("--fixtures", "-q").stdout.str()
    for name in ("twopc", "twopc_async", "twopc_factory", "twopc_server", "twopc_template"):
        assert re.search(rf"^{name}( |$)", fixtures, re.MULTILINE)
    project.test(
        """
        def test_it(request):
            used = [name for name in request.fixturenames if name.startswith("twopc")]
            assert used == []
        """
    )
    project.run("-q").assert_outcomes(passed=1)


KEEPING = """
    import pytest
    from twopc.server import EmbeddedServer

    @pytest.fixture(scope="session")
    def twopc_server():
        with EmbeddedServer.start() as server:
            yield server.dsn("postgres", tcp=True)
            import psycopg
            with psycopg.connect(server.superuser_dsn("postgres")) as connection:
                found = connection.execute("select datname from pg_database where datname ~ 'twopct'")
                print("left:", len(found.fetchall()))
                from twopc.sim.testing.servers import server_of, sweep
                assert sweep(server_of(server.superuser_dsn("postgres"))) == []
"""


def test_keeping_and_reporting(project: Project) -> None:
    """`--twopc-keep` keeps databases of failed tests; `--twopc-report` writes the history.

    Databases can be kept only on a server that stays.
    """
    project.test(
        """
        def test_fails(twopc):
            twopc.session("sub1").execute("select 1")
            assert False
        def test_passes(twopc): pass
        """
    )
    refused = project.run("-q", "--twopc-keep", "failed", "--twopc-report", "reports")
    refused.assert_outcomes(failed=1, errors=1, passed=1)
    refused.stdout.fnmatch_lines(["*--twopc-keep needs a server that stays*--twopc-pg URL*"])
    written = project.pytester.path / "reports" / "test_it.py_test_fails"
    assert "select 1" in (written / "history.jsonl").read_text(encoding="utf-8")
    assert "<html" in (written / "report.html").read_text(encoding="utf-8")
    project.pytester.makeconftest(KEEPING)
    result = project.run("-q", "-s", "--twopc-keep", "failed")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        ["*left: 4", "kept of test_fails: pub is at 127.0.0.1:*/twopct_*_pub"]
    )


def test_an_extra_for_pages(project: Project) -> None:
    """If a plugin is registered as pytest-html is, a failure has an extra for its page."""
    project.pytester.makeconftest(
        """
        import pytest

        def pytest_configure(config):
            config.pluginmanager.register(object(), "html")

        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_makereport(item):
            report = yield
            for extra in getattr(report, "extras", ()):
                print(sorted(extra), extra["content"])
            return report
        """
    )
    project.test(
        """
        def test_fails(twopc):
            twopc.session("sub1").execute("select 1")
            assert False
        """
    )
    result = project.run("-q", "-s")
    result.stdout.fnmatch_lines(["*['content', 'extension', 'format_type', 'mime_type', 'name']*"])
    result.stdout.fnmatch_lines(["*sub1.1: select 1*"])
