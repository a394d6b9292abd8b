"""The program ``python -m twopc.sim.testing.migration``, which runs migrations of Alembic or Django.

Both expect a process of their own: they configure logging, and settings of the whole process. The program reads its
task as JSON from standard input, and writes nothing to standard output except the place of a failure, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from twopc.sim.testing.blame import Blame, blame

#: The last statement that was sent, for errors that do not name their statement.
_last: list[str] = []


def _alembic(config: dict[str, Any]) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from sqlalchemy import create_engine

    url = config["url"]
    made = Config(config["ini"])
    made.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    command.upgrade(made, config["revision"])
    script = ScriptDirectory.from_config(made)
    engine = create_engine(url)
    with engine.connect() as connection:
        table = str(made.get_main_option("version_table") or "alembic_version")
        context = MigrationContext.configure(connection, opts={"version_table": table})
        if script.get_heads() and not context.get_current_heads():
            raise LookupError(
                f"{script.env_py_location} has migrated another database: it must connect to "
                "config.get_main_option('sqlalchemy.url'), or to the environment's DATABASE_URL"
            )


def _django(config: dict[str, Any]) -> None:
    import django
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connections

    def note(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        _last[:] = [str(sql)]
        return execute(sql, *rest)

    alias = config["alias"]
    settings.DATABASES = {**settings.DATABASES, alias: config["database"]}
    django.setup()
    with connections[alias].execute_wrapper(note):
        call_command("migrate", database=alias, interactive=False, verbosity=0)


def main() -> None:
    """Run the migrations that standard input describes."""
    out, sys.stdout = sys.stdout, sys.stderr
    config = json.loads(sys.stdin.read())
    os.chdir(config["folder"])
    try:
        {"alembic": _alembic, "django": _django}[config["tool"]](config)
    except (Exception, SystemExit) as error:
        result = _of(error, config)
        out.write(json.dumps(asdict(result)))
        out.flush()
        sys.exit(1)


def _of(error: BaseException, config: dict[str, Any]) -> Blame:
    missing = getattr(error, "name", "") if isinstance(error, ImportError) else ""
    if missing == config["tool"]:
        return Blame(message=f"{config['tool']} is not installed: pip install {config['tool']}")
    if missing and missing == os.environ.get("DJANGO_SETTINGS_MODULE", "").partition(".")[0]:
        return Blame(
            message=f"{error} in {config['folder']}: DjangoMigrations(settings, folder=...) names the folder of "
            "manage.py"
        )
    result = blame(error, statement="".join(_last))
    return result if result.file else replace(result, **_django_place(error, result.statement))


def _django_place(error: BaseException, statement: str) -> dict[str, Any]:
    """Return the file of the migration that failed: Django builds its operations in advance, so no frame is in the
    file.
    """
    migration, trace = None, error.__traceback__
    while trace is not None:
        migration = trace.tb_frame.f_locals.get("migration", migration)
        trace = trace.tb_next
    file = getattr(sys.modules.get(type(migration).__module__), "__file__", None)
    if not file or type(migration).__name__ != "Migration":
        return {}
    first = (statement.strip().splitlines() or [""])[0]
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    line = next((at for at, text in enumerate(lines, 1) if first and first in text), 1)
    return {"file": file, "line": line}


if __name__ == "__main__":
    main()
