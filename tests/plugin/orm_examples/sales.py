"""An ordinary application on SQLAlchemy's ORM, with and without asyncio."""

from __future__ import annotations

from sqlalchemy import update
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    """Base class of this application's models."""


class Account(Base):
    """A row of `account`, whose key the Publisher generates."""

    __tablename__ = "account"
    id: Mapped[int] = mapped_column(primary_key=True)
    balance: Mapped[int]


def sell(engine, price):
    """Sell in one unit of work."""
    with Session(engine) as session, session.begin():
        account = session.get_one(Account, 1)
        account.balance -= price


async def sell_async(engine, price):
    """Sell in one transaction, with asyncio."""
    async with engine.begin() as connection:
        await connection.execute(update(Account).values(balance=Account.balance - price))
