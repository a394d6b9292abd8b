"""Parts of a template, which create tables: files of SQL, SQLAlchemy's metadata, migrations of Alembic or Django.

Each part gets the address of the Publisher's administrator. Errors name file, line and statement. Independent of
topologies and pytest.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from twopc.errors import ConfigurationError
from twopc.lexer import SqlToken, statements
from twopc.sim.testing.addresses import NodeAddress
from twopc.sim.testing.blame import Blame, blame

#: Number of last lines of a program's output that are shown if it reports no error of known form.
_TAIL = 6
#: Commands of psql that pg_dump writes around a dump.
_RESTRICT = re.compile(r"^\\(?:un)?restrict .*$", re.MULTILINE)
#: A text that is a file's name rather than SQL.
_FILE_NAME = re.compile(r"\S+\.sql")


class TemplatePart:
    """A part of a template, which creates tables at an address; see the classes below."""

    async def load(self, where: NodeAddress) -> None:
        """Create the tables.

        Args:
            where: the Publisher, as its administrator.

        Raises:
            ConfigurationError: the tables cannot be created; the message names file, line and statement.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SqlScript(TemplatePart):
    """A file of SQL, or every ``*.sql`` of a folder in the order of their names; or SQL itself."""

    source: Path | str

    async def load(self, where: NodeAddress) -> None:
        """Run the SQL, statement by statement, in a session of its own."""
        for name, text in self._texts():
            async with await psycopg.AsyncConnection.connect(
                where.dsn, autocommit=True
            ) as connection:
                await _run(connection, name, text)

    def _texts(self) -> list[tuple[str, str]]:
        if isinstance(self.source, str):
            if _FILE_NAME.fullmatch(self.source):
                raise ConfigurationError(
                    f"{self.source!r} is a text, and so SQL; a file is named by pathlib.Path({self.source!r})"
                )
            return [("", self.source)]
        folder = sorted(self.source.glob("*.sql")) if self.source.is_dir() else [self.source]
        if not folder:
            raise ConfigurationError(f"{self.source} cannot be loaded: no *.sql in it")
        try:
            return [(str(path), path.read_text(encoding="utf-8")) for path in folder]
        except OSError as error:
            raise ConfigurationError(
                f"{error.filename} cannot be loaded: {error.strerror}"
            ) from error
        except UnicodeDecodeError as error:
            raise ConfigurationError(f"{self.source} cannot be loaded: {error}") from error


async def _run(connection: psycopg.AsyncConnection[Any], name: str, text: str) -> None:
    text = _RESTRICT.sub("", text)
    for tokens in statements(text):
        start = tokens[0].start
        statement = text[start : tokens[-1].start + len(tokens[-1].text)]
        reason = _not_sql(tokens)
        if reason:
            raise ConfigurationError(_failed(name, text, start, reason, statement))
        try:
            await connection.execute(statement.encode())
        except psycopg.Error as error:
            position = error.diag.statement_position
            at = start + int(position) - 1 if position else start
            raise ConfigurationError(
                _failed(name, text, at, blame(error).message, statement)
            ) from error


def _not_sql(tokens: list[SqlToken]) -> str:
    """Return why a statement cannot be sent to a server; empty if it can."""
    if tokens[0].text == "\\":
        return "a command of psql, which is no SQL: leave it out"
    lines = [token.word for token in tokens]
    if lines[0] == "copy" and "stdin" in lines:
        return "rows for COPY FROM STDIN are no SQL: write INSERT (pg_dump --inserts)"
    return ""


def _failed(name: str, text: str, at: int, message: str, statement: str) -> str:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    if name:
        return Blame(
            message=message, file=name, line=line, column=column, statement=statement
        ).text()
    return f"SQL, line {line}: {Blame(message=message, statement=statement).text()}"


@dataclass(frozen=True, slots=True)
class SqlAlchemyTables(TemplatePart):
    """The tables that ``metadata.create_all`` creates.

    Args:
        metadata: ``Base.metadata``, or ``"module:Base.metadata"``.
        driver: with which SQLAlchemy connects.
    """

    metadata: Any
    driver: str = "psycopg"

    async def load(self, where: NodeAddress) -> None:
        """Create all tables."""
        try:
            await asyncio.to_thread(self._create, where.url(self.driver))
        except Exception as error:
            result = blame(error)
            name = self.metadata if isinstance(self.metadata, str) else "create_all"
            raise ConfigurationError(f"SqlAlchemyTables: {name}: {result.text()}") from error

    def _create(self, url: str) -> None:
        from sqlalchemy import create_engine

        metadata = named(self.metadata) if isinstance(self.metadata, str) else self.metadata
        engine = create_engine(url)
        try:
            metadata.create_all(engine)
        finally:
            engine.dispose()


@dataclass(frozen=True, slots=True)
class AlembicMigrations(TemplatePart):
    """The tables that ``alembic upgrade`` creates, in a process of its own; `env.py` gets the URL as
    ``sqlalchemy.url`` and in ``DATABASE_URL``.

    Args:
        ini: path of ``alembic.ini``.
        revision: revision to upgrade to.
        driver: with which `env.py` connects.
    """

    ini: Path | str = "alembic.ini"
    revision: str = "head"
    driver: str = "psycopg"

    async def load(self, where: NodeAddress) -> None:
        """Upgrade to the revision."""
        ini = self._file()
        url = where.url(self.driver)
        config = {"tool": "alembic", "folder": str(ini.parent), "ini": str(ini), "url": url}
        await _migrate(
            f"alembic upgrade {self.revision}", {**config, "revision": self.revision}, url
        )

    def _file(self) -> Path:
        ini = Path(self.ini).resolve()
        if not ini.is_file():
            raise ConfigurationError(f"AlembicMigrations: there is no file {ini}")
        return ini


@dataclass(frozen=True, slots=True)
class DjangoMigrations(TemplatePart):
    """The tables that ``manage.py migrate`` creates, in a process of its own.

    Args:
        settings: the settings' module; None: that of ``DJANGO_SETTINGS_MODULE``.
        folder: folder of `manage.py`, from which the settings are imported; None: the working directory.
        alias: of the database in ``DATABASES`` that is migrated.
    """

    settings: str | None = None
    folder: Path | str | None = None
    alias: str = "default"

    def _home(self) -> str:
        return str(Path(self.folder or Path.cwd()).resolve())

    async def load(self, where: NodeAddress) -> None:
        """Run the migrations."""
        settings = self.settings or os.environ.get("DJANGO_SETTINGS_MODULE")
        if not settings:
            raise ConfigurationError(
                "DjangoMigrations: name the settings, as DjangoMigrations('shop.settings'), or set "
                "DJANGO_SETTINGS_MODULE"
            )
        config = {
            "tool": "django",
            "folder": self._home(),
            "alias": self.alias,
            "database": where.django(),
        }
        await _migrate("manage.py migrate", config, where.url(""), DJANGO_SETTINGS_MODULE=settings)


async def _migrate(title: str, config: dict[str, Any], url: str, **environment: str) -> None:
    """Run a tool's migrations in a process with the import path of this one.

    Raises:
        ConfigurationError: the migrations have failed.
    """
    places = [config["folder"], *(path for path in sys.path if path)]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "twopc.sim.testing.migration",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"DATABASE_URL": url, "PYTHONPATH": os.pathsep.join(places)} | environment,
    )
    try:
        out, text = await process.communicate(json.dumps(config).encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if not process.returncode:
        return
    try:
        result = Blame(**json.loads(out)).text()
    except ValueError:
        result = "\n".join(text.decode(errors="replace").splitlines()[-_TAIL:])
    raise ConfigurationError(f"{title}: {result}")


def named(name: str) -> Any:
    """Return the object named ``module:attribute.attribute``.

    Raises:
        ConfigurationError: there is no such object.
    """
    module, _, attributes = name.partition(":")
    try:
        result: Any = importlib.import_module(module)
        for attribute in attributes.split("."):
            result = getattr(result, attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"load={name!r}: {error}") from error
    return result
