"""An ordinary application on SQLAlchemy's ORM, awaited or not."""

from __future__ import annotations

from sqlalchemy import update
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    """Of this application."""


class Account(Base):
    """A row of `account`; its key comes from the Publisher."""

    __tablename__ = "account"
    id: Mapped[int] = mapped_column(primary_key=True)
    balance: Mapped[int]


def sell(engine, price):
    """One unit of work."""
    with Session(engine) as session, session.begin():
        account = session.get_one(Account, 1)
        account.balance -= price


async def sell_async(engine, price):
    """The same, awaited."""
    async with engine.begin() as connection:
        await connection.execute(update(Account).values(balance=Account.balance - price))
