"""An ordinary application on SQLAlchemy's ORM."""

from __future__ import annotations

from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = "account"
    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[str]
    balance: Mapped[int]
    version: Mapped[int]


class CarefulAccount(Base):
    __table__ = Account.__table__
    __mapper_args__ = {"version_id_col": Account.__table__.c.version}  # noqa: RUF012


class Purchase:
    """One request: the account is loaded, and charged later."""

    model = Account

    def __init__(self, engine):
        self.engine = engine

    def load(self):
        self.session = Session(self.engine)
        self.account = self.session.get(self.model, 1)

    def charge(self):
        with self.session:
            self.account.balance -= 10
            self.session.commit()


class CarefulPurchase(Purchase):
    model = CarefulAccount
