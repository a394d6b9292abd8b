"""SQLAlchemy's ORM against a Subscriber: its unit of work, and its optimistic `version_id_col`."""

from __future__ import annotations

import sys
import time

from sqlalchemy import ForeignKey, Integer, create_engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship, sessionmaker
from sqlalchemy.orm.exc import StaleDataError


class Base(DeclarativeBase):
    """Of this application."""


class Account(Base):
    """A row of `account`, whose revision SQLAlchemy counts."""

    __tablename__ = "account"
    id: Mapped[int] = mapped_column(primary_key=True)
    balance: Mapped[int]
    revision = mapped_column(Integer, nullable=False)
    entries: Mapped[list[Entry]] = relationship(back_populates="holder")

    __mapper_args__ = {"version_id_col": revision}  # noqa: RUF012 # as SQLAlchemy has it


class Entry(Base):
    """A row of `entry`; its key comes from the Publisher."""

    __tablename__ = "entry"
    id: Mapped[int] = mapped_column(primary_key=True)
    account: Mapped[int] = mapped_column(ForeignKey("account.id"))
    amount: Mapped[int]
    holder: Mapped[Account] = relationship(back_populates="entries")


Session = sessionmaker(create_engine("postgresql+psycopg://"))


def transfer(amount: int) -> None:
    """One unit of work: objects are read, changed, and written at its end."""
    with Session.begin() as session:
        payer, payee = session.get_one(Account, 1), session.get_one(Account, 2)
        if payer.balance < amount:
            raise ValueError("not enough money")
        payer.balance -= amount
        payee.balance += amount
        payer.entries.append(Entry(amount=-amount))


def main() -> None:
    """Transfer, and try again after a conflict."""
    for attempt in range(1, 11):
        try:
            transfer(10)
        except StaleDataError:
            reason = "another session of this Subscriber was quicker"
        except OperationalError as error:
            if error.orig is None or error.orig.sqlstate != "40001":
                raise
            reason = f"40001 {error.orig.diag.message_detail}"
        else:
            print("transferred")
            return
        print(f"attempt {attempt}: {reason}", flush=True)
        time.sleep(0.05 * 2**attempt)  # until the Subscriber has got what it lacks
    sys.exit("gave up")


if __name__ == "__main__":
    main()
