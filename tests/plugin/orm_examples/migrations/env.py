"""A short form of the file that `alembic init` writes."""

from __future__ import annotations

from alembic import context
from sales import Base
from sqlalchemy import engine_from_config

section = context.config.get_section(context.config.config_ini_section)
engine = engine_from_config(section, prefix="sqlalchemy.")
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=Base.metadata)
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
