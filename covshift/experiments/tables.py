"""Tables for the terminal and for Markdown pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Cell", "Table", "put_tables_into"]


@dataclass(frozen=True)
class Cell:
    """A cell's text; bold marks the best method and those not significantly worse."""

    text: str
    bold: bool = False


@dataclass(frozen=True)
class Table:
    """A named table with notes below it; `name` is what pages refer to."""

    name: str
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell | str]]
    notes: Sequence[str] = field(default_factory=tuple)

    def terminal(self, colour: bool = False) -> str:
        """Aligned columns; bold is an escape sequence with `colour`, else a star behind the number."""
        texts = [[_plain(cell, colour) for cell in row] for row in self.rows]
        widths = [max(len(row[j]) for row in [list(self.header), *texts]) for j in range(len(self.header))]

        def line(cells: Sequence[str]) -> str:
            padded = [
                c.ljust(w) if j == 0 else c.rjust(w) for j, (c, w) in enumerate(zip(cells, widths, strict=True))
            ]
            return "  ".join(padded).rstrip()

        body = []
        for row, text in zip(self.rows, texts, strict=True):
            shown = line(text)
            for cell, plain in zip(row, text, strict=True):
                if colour and isinstance(cell, Cell) and cell.bold:
                    shown = shown.replace(plain, f"\x1b[1m{plain}\x1b[0m", 1)
            body.append(shown)
        rule = "-" * min(len(line(list(self.header))), 200)
        return "\n".join([self.title, rule, line(list(self.header)), rule, *body, rule, *self.notes])

    def as_dict(self) -> dict[str, Any]:
        """For machines: every cell is its text, bold cells are listed by (row, column)."""
        bold = [
            (i, j) for i, row in enumerate(self.rows) for j, c in enumerate(row) if isinstance(c, Cell) and c.bold
        ]
        texts = [[c.text if isinstance(c, Cell) else c for c in row] for row in self.rows]
        title = {"name": self.name, "title": self.title, "header": list(self.header)}
        return {**title, "rows": texts, "bold": bold, "notes": list(self.notes)}

    def markdown(self) -> str:
        """A pipe table with its title in bold and its notes below."""
        lines = [f"**{self.title}**", "", _pipe(self.header), _pipe(["---"] + ["---:"] * (len(self.header) - 1))]
        lines += [_pipe([_marked(cell) for cell in row]) for row in self.rows]
        return "\n".join([*lines, "", *[f"{note}  " for note in self.notes]]).rstrip() + "\n"


def _plain(cell: Cell | str, colour: bool) -> str:
    if isinstance(cell, str):
        return cell
    return cell.text if colour else cell.text + ("*" if cell.bold else "")


def _marked(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return cell
    return f"**{cell.text}**" if cell.bold and cell.text else cell.text


def _pipe(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def put_tables_into(page: Path, tables: Sequence[Table]) -> tuple[str, list[str]]:
    """The page's text with every `<!-- table NAME -->` ... `<!-- /table -->` filled anew; and the names filled.

    A block whose table is not among `tables` stays as it is.
    """
    by_name = {table.name: table for table in tables}
    filled: list[str] = []

    def fill(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in by_name:
            return match.group(0)
        filled.append(name)
        return f"<!-- table {name} -->\n{by_name[name].markdown()}<!-- /table -->"

    text = page.read_text(encoding="utf-8")
    return re.sub(r"<!-- table (\S+) -->\n.*?<!-- /table -->", fill, text, flags=re.DOTALL), filled
