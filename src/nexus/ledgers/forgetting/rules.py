"""The words in which `tables.py` says, for every table, what forgetting does to its rows."""

from dataclasses import KW_ONLY, dataclass
from enum import Enum


class Then(Enum):
    """What happens to a row when something that it refers to goes, or when its text names the target."""

    ROW = "the row goes"
    OWNER = "what the row is a part of goes, and the row with it"
    NAMED = "as OWNER where mentions are forgotten too, else as ROW"
    CLEAR = "the row stays, and the column is emptied"
    TELL = "the row stays, and the report says so"


@dataclass(frozen=True, slots=True)
class Ref:
    """A column that holds the key of another table's row."""

    column: str
    table: str
    then: Then = Then.ROW
    _: KW_ONLY
    # Which rows it is about, where a second column says what the first one refers to.
    when: str = "TRUE"
    # A row of which this is true has a better origin: it stays, and the column is emptied.
    unless: str = ""
    # The column that names what the row is a part of, where it is not the table's own `owner`.
    owner: str = ""
    # Both rows go together by another reference, so that this one need not be looked up.
    implied: bool = False

    @property
    def removes(self) -> bool:
        """Whether every row that refers to something that goes, goes too."""
        return not self.unless and self.then is not Then.CLEAR


def refs_by_type(
    column: str,
    type_column: str,
    then: Then = Then.ROW,
    *,
    when: str = "TRUE",
    owner: str = "",
    **tables: str,
) -> tuple[Ref, ...]:
    """References by a column beside which another says what it refers to: `event="events"`, …"""
    return tuple(
        Ref(column, table, then, when=f"{type_column} = '{type_}' AND {when}", owner=owner)
        for type_, table in tables.items()
    )


@dataclass(frozen=True, slots=True)
class Text:
    """A column whose text may name the target."""

    column: str
    then: Then = Then.ROW
    _: KW_ONLY
    # What the column holds once it is emptied.
    blank: str | None = None
    # Which rows are looked at.
    when: str = "TRUE"


@dataclass(frozen=True, slots=True)
class Time:
    """The column that places a row in time, or the two between which it lies.

    A row whose origin is known goes with that origin, whatever its own time: `unless` says which.
    """

    start: str
    end: str = ""
    _: KW_ONLY
    unless: str = "FALSE"


@dataclass(frozen=True, slots=True)
class Table:
    """What forgetting does to one table. One with `kept` is left alone, for that reason."""

    ledger: str
    name: str
    _: KW_ONLY
    key: tuple[str, ...] = ("id",)
    refs: tuple[Ref, ...] = ()
    texts: tuple[Text, ...] = ()
    time: Time | None = None
    # The column among `refs` that names what a row is a part of.
    owner: str = ""
    # The full-text index over the table, and those of the table's own columns whose names it finds.
    index: str = ""
    indexed: tuple[str, ...] = ()
    kept: str = ""

    @property
    def path(self) -> str:
        """The table's name where all ledgers are attached."""
        return f"{self.ledger}.{self.name}"

    @property
    def key_sql(self) -> str:
        """The key as one text: a single column as it is, several as a JSON array."""
        return self.key[0] if len(self.key) == 1 else f"json_array({', '.join(self.key)})"

    @property
    def owner_table(self) -> str:
        """The table that `owner` refers to."""
        return self.referred_table(self.owner)

    def referred_table(self, column: str) -> str:
        """Return the table that a column refers to."""
        return next(ref.table for ref in self.refs if ref.column == column)
