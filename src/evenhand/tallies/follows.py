"""Who follows whom, how much each viewer saw, and what each author received, as integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.errors import EvenhandError
from evenhand.sources.sql import columns
from evenhand.tallies.ragged import Bools, Ints, starts_of
from evenhand.tallies.spectrum import Label

if TYPE_CHECKING:
    from evenhand.sources.engine import Cells
    from evenhand.sources.logs import Amount, Log
    from evenhand.sources.relation import Relation


@dataclass(frozen=True)
class Follows:
    """A graph and what was seen on it; people are numbered, whether they follow, are followed, view or are viewed.

    Attributes
    ----------
    starts : (P + 1,) edges `starts[i]` to `starts[i + 1]` are those of person i.
    followed : (E,) whom they lead to.
    is_unit : (P,) who has a follower or an amount.
    nodes : the table of their ids in the engine. id_type : SQL pattern that makes ids of the log comparable with them.
    repeated, loops : edges that were left out.
    """

    starts: Ints
    followed: Ints
    is_unit: Bools
    nodes: str
    id_type: str
    repeated: int
    loops: int

    @property
    def people(self) -> int:
        return len(self.is_unit)

    @property
    def out_degree(self) -> Ints:
        return np.diff(self.starts)

    @property
    def in_degree(self) -> Ints:
        return np.bincount(self.followed, minlength=self.people)

    @classmethod
    def from_tables(cls, log: Log, amount: Amount, edges: Relation, follower: str, followed: str) -> Follows:
        """Repeated edges and those from somebody to themselves are left out and counted."""
        engine = log.engine
        kinds = [log.types["unit"], log.types["viewer"], edges.label_type(follower), edges.label_type(followed)]
        id_type = "{}" if all(kind.is_integer() for kind in kinds) else "CAST({} AS VARCHAR)"
        pair = {"follower": id_type.format(edges.label(follower)), "followed": id_type.format(edges.label(followed))}
        rows = f"({edges.select(pair)}) AS edges"
        facts = engine.cells(
            f"SELECT COUNT(*) AS n, COUNT(follower) AS a, COUNT(followed) AS b, "
            f"SUM(CASE WHEN follower = followed THEN 1 ELSE 0 END) AS loops FROM {rows}"
        ).row()
        if not facts["n"] or min(facts["a"], facts["b"]) < facts["n"]:
            raise EvenhandError(
                "edges has no rows. Pass a table of who follows whom."
                if not facts["n"]
                else f"edges lacks an id in {facts['n'] - min(facts['a'], facts['b']):,} rows. Remove them."
            )
        distinct = engine.keep(f"SELECT DISTINCT follower, followed FROM {rows} WHERE follower <> followed")
        ids = " UNION ".join(
            [f"SELECT follower AS id FROM {distinct}", f"SELECT followed AS id FROM {distinct}"]
            + [f"SELECT {id_type.format(role)} AS id FROM {log.source}" for role in ("unit", "viewer")]
        )
        nodes = engine.keep(f"SELECT id, ROW_NUMBER() OVER (ORDER BY id) - 1 AS code FROM ({ids}) AS ids")
        arcs = engine.cells(f"""
            SELECT a.code AS follower, b.code AS followed
            FROM {distinct} AS arcs JOIN {nodes} AS a ON arcs.follower = a.id JOIN {nodes} AS b ON arcs.followed = b.id
            ORDER BY 1, 2
        """)
        people = int(engine.cells(f"SELECT COUNT(*) AS n FROM {nodes}").row()["n"])
        loops = int(facts["loops"] or 0)
        follows = cls(
            starts_of(np.bincount(arcs.integers("follower"), minlength=people)), arcs.integers("followed"),
            np.zeros(people, dtype=bool), nodes, id_type, int(facts["n"]) - loops - len(arcs), loops,
        )  # fmt: skip
        seen = engine.cells(f"""
            SELECT code
            FROM ({log.sums(amount, ["unit"])}) AS sums JOIN {nodes} AS nodes ON {id_type.format("unit")} = id
            WHERE amount > 0
        """)
        follows.is_unit[:] = follows.in_degree > 0
        follows.is_unit[seen.integers("code")] = True
        return follows

    def impressions(self, log: Log, amount: Amount) -> tuple[list[Label], Ints, Ints, Ints]:
        """Slices, and for every slice and viewer: code of the slice, viewer, number of impressions."""
        cells = log.engine.cells(f"""
            SELECT {columns([*log.keys, "code"])}, amount
            FROM ({log.sums(amount, [*log.keys, "viewer"])}) AS sums
            JOIN {self.nodes} AS nodes ON {self.id_type.format("viewer")} = nodes.id
            WHERE amount > 0
            ORDER BY {columns([*log.keys, "code"])}
        """)
        codes, labels = cells.codes(log.keys)
        return labels, np.asarray(codes), cells.integers("code"), cells.integers("amount")

    def received(self, log: Log, amount: Amount, buckets: Cells) -> tuple[list[Label], Ints, Ints, Ints, Any]:
        """Slices, and for every slice, bucket of viewers and author: their codes, and the amount."""
        cells = log.engine.cells(f"""
            SELECT {columns([*log.keys, "bucket"])}, authors.code AS author, SUM(amount) AS amount
            FROM ({log.sums(amount, [*log.keys, "viewer", "unit"])}) AS sums
            JOIN {self.nodes} AS viewers ON {self.id_type.format("viewer")} = viewers.id
            JOIN {log.engine.bring(buckets)} AS buckets ON viewers.code = buckets.viewer
            JOIN {self.nodes} AS authors ON {self.id_type.format("unit")} = authors.id
            WHERE amount > 0
            GROUP BY {columns([*log.keys, "bucket"])}, authors.code
        """)
        codes, labels = cells.codes(log.keys)
        return labels, np.asarray(codes), cells.integers("bucket"), cells.integers("author"), cells.floats("amount")
