"""Tests of other tools' templates: a mistake is reported with file, line and statement.

The message has at most ten lines.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import CheckConstraint, Column, Integer, MetaData, Table

from tests.plugin.running import Project
from twopc.errors import ConfigurationError
from twopc.sim.testing.bench import Bench, TopologyRequest
from twopc.sim.testing.bench_tables import publisher_url
from twopc.sim.testing.templates import AlembicMigrations, DjangoMigrations, SqlAlchemyTables

pytest_plugins = ["pytester"]

EXAMPLES = Path(__file__).parent / "orm_examples"


def refusal(bench: Bench, load: Any) -> list[str]:
    """Return the lines of the error for a template that cannot be loaded."""
    with pytest.raises(ConfigurationError) as caught:
        bench.open(TopologyRequest(load=(load,)), "a test")
    lines = str(caught.value).splitlines()
    assert len(lines) <= 10
    return lines


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of the applications' files, in which tests make mistakes."""
    return Path(shutil.copytree(EXAMPLES, tmp_path / "sources"))


def edit(path: Path, old: str, new: str) -> None:
    """Replace a text in a file."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_a_file_of_sql(bench: Bench, tmp_path: Path) -> None:
    """An error is reported at the server's position in the file, or else at the statement."""
    path = tmp_path / "bank.sql"
    path.write_text(
        "create function f() returns int begin atomic select 1; end;\n"
        "create table account (id int primary key,\n"
        "  owner tex);",
        encoding="utf-8",
    )
    assert refusal(bench, path) == [
        f'{path}:3:9: type "tex" does not exist (42704)',
        "     3 |   owner tex);",
        "  statement: create table account (id int primary key,",
        "      owner tex)",
    ]
    other = tmp_path / "other.sql"
    other.write_text(
        "create table account (id int primary key);\n\n"
        "insert into account values (1);\ninsert into account values (1); -- again\n",
        encoding="utf-8",
    )
    assert refusal(bench, other) == [
        f'{other}:4:1: duplicate key value violates unique constraint "account_pkey" (23505)',
        "     4 | insert into account values (1); -- again",
        "  Key (id)=(1) already exists.",
    ]


def test_what_is_for_psql_only(bench: Bench, tmp_path: Path) -> None:
    """A dump is loaded as far as it is SQL; rows for COPY and commands of psql are refused."""
    dump = tmp_path / "dump.sql"
    dump.write_text(
        "\\restrict abc\nselect set_config('search_path', '', false);\n"
        "create table public.account (id int primary key);\n"
        "copy public.account (id) from stdin;\n1\n\\.\n",
        encoding="utf-8",
    )
    assert refusal(bench, dump)[0] == (
        f"{dump}:4:1: rows for COPY FROM STDIN are no SQL: write INSERT (pg_dump --inserts)"
    )
    script = tmp_path / "script.sql"
    script.write_text("select 1;\n\\i other.sql\n", encoding="utf-8")
    assert refusal(bench, script)[0].startswith(f"{script}:2:1: a command of psql")


def test_the_name_of_a_file_is_no_sql(bench: Bench) -> None:
    assert refusal(bench, "data/bank.sql") == [
        "'data/bank.sql' is a text, and so SQL; a file is named by pathlib.Path('data/bank.sql')"
    ]


def test_a_folder_of_sql(bench: Bench, tmp_path: Path) -> None:
    """The files of a folder are loaded in the order of their names."""
    (tmp_path / "2.sql").write_text("insert into account values (1)", encoding="utf-8")
    (tmp_path / "1.sql").write_text("create table account (id int primary key)", encoding="utf-8")
    wanted = TopologyRequest(load=(tmp_path,), subscribers=1)
    bed = bench.open(wanted, "a test")
    assert bench.call(bed.rows, "sub1", "account") == [{"id": 1}]
    bench.close_bed(bed, wanted, "clone")
    bench.close_pool(wanted)


def test_metadata(bench: Bench) -> None:
    """An error in SQLAlchemy's metadata is reported with the statement that `create_all` sent."""
    metadata = MetaData()
    Table("account", metadata, Column("id", Integer, CheckConstraint("x > 0"), primary_key=True))
    lines = refusal(bench, metadata)
    assert 'column "x" does not exist (42703)' in lines[0]
    assert any("CREATE TABLE account" in line for line in lines)
    assert "has no attribute 'Nothing'" in refusal(bench, SqlAlchemyTables("shutil:Nothing"))[0]


def test_a_function(bench: Bench) -> None:
    """A function is called in a thread and may open an engine; its error is shown at its line."""
    from django.utils.asyncio import async_unsafe
    from sqlalchemy import create_engine, text

    @async_unsafe
    def makes(topology: Any) -> None:
        engine = create_engine(publisher_url(topology))
        try:
            with engine.begin() as connection:
                connection.execute(text("select * from nothing"))
        finally:
            engine.dispose()

    lines = refusal(bench, makes)
    assert lines[0].endswith(': relation "nothing" does not exist (42P01)')
    assert "tests/plugin/test_templates.py" in lines[0]
    assert lines[1].endswith('connection.execute(text("select * from nothing"))')


def test_a_migration_of_alembic(bench: Bench, sources: Path) -> None:
    """An error is reported at the migration's line; a migration of another database is refused."""
    migration = sources / "migrations" / "versions" / "0001_account.py"
    edit(migration, "insert into account", "insert into acount")
    lines = refusal(bench, AlembicMigrations(sources / "alembic.ini"))
    assert lines == [
        f'alembic upgrade head: {migration}:19: relation "acount" does not exist (42P01)',
        '    19 |     op.execute("insert into acount (balance) values (100)")',
    ]
    edit(migration, "insert into acount", "insert into account")
    edit(
        sources / "migrations" / "env.py",
        'prefix="sqlalchemy."',
        'prefix="sqlalchemy.", url="sqlite://"',
    )
    edit(migration, "sa.Identity(), ", "")
    lines = refusal(bench, AlembicMigrations(str(sources / "alembic.ini")))
    assert "has migrated another database: it must connect to" in lines[0]
    assert "there is no file" in refusal(bench, AlembicMigrations(sources / "alembi.ini"))[0]


def test_a_migration_of_django(bench: Bench, sources: Path) -> None:
    """An error is reported at the migration's line; for missing settings, with a remedy."""
    migration = sources / "store" / "migrations" / "0001_initial.py"
    edit(migration, "RunPython(fill)", 'RunSQL("select 1;\\nselect * from nothing")')
    lines = refusal(bench, DjangoMigrations("settings", folder=sources))
    assert lines == [
        f'manage.py migrate: {migration}:24: relation "nothing" does not exist (42P01)',
        '    24 |         migrations.RunSQL("select 1;\\nselect * from nothing"),',
        "  statement: select 1;",
        "    select * from nothing",
    ]
    edit(migration, "migrations.RunSQL(", "migrations.RunPython(fill), migrations.RunSQL(")
    edit(migration, "balance=100", "balance=10**12")
    lines = refusal(bench, DjangoMigrations("settings", folder=str(sources)))
    assert lines[0] == f"manage.py migrate: {migration}:10: integer out of range (22003)"
    assert "INSERT INTO" in lines[2]
    assert (
        "folder=...) names the folder of manage.py"
        in (refusal(bench, DjangoMigrations("nowhere.settings"))[0])
    )


def test_it_is_tried_once(project: Project) -> None:
    """A failing template is tried once, and fails every test; a part of unknown type is refused."""
    project.pytester.makepyfile(
        loads="""
        calls = []

        def fails(topology):
            calls.append(topology)
            raise ValueError("no table")
        """
    )
    project.test(
        """
        import loads
        import pytest

        @pytest.mark.twopc(load=["loads:fails"])
        @pytest.mark.parametrize("time", range(3))
        def test_it(twopc, time): pass

        def test_count():
            assert len(loads.calls) == 1

        @pytest.mark.twopc(load=[7])
        def test_number(twopc): pass
        """
    )
    result = project.run("-q")
    result.assert_outcomes(passed=1, errors=4)
    result.stdout.fnmatch_lines(
        [
            "load=fails: *loads.py:5: ValueError: no table",
            "load=7: a template's part is a Path to SQL, SQL, SQLAlchemy's Base.metadata, a function, or *",
        ]
    )
