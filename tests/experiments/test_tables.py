"""Tables as text, and pages whose tables are filled anew."""

from __future__ import annotations

from covshift.experiments.tables import Cell, Table, put_tables_into

TABLE = Table(
    "x/main", "A title", ["method", "error"], [["a|b", Cell("0.1", True)], ["c", Cell("0.25")]], ["A note."]
)


def test_terminal_aligns_and_stars_bold_cells():
    lines = TABLE.terminal().splitlines()
    assert lines[0] == "A title"
    assert lines[4].split() == ["a|b", "0.1*"]
    assert lines[5].endswith("0.25") and len(lines[4]) <= len(lines[2])
    assert lines[-1] == "A note."


def test_terminal_in_colour_keeps_the_columns():
    plain = TABLE.terminal(colour=True).replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    assert plain[4].endswith("0.1") and len(plain[4]) == len(plain[5])


def test_markdown_escapes_pipes_and_marks_bold():
    text = TABLE.markdown()
    assert "| a\\|b | **0.1** |" in text
    assert text.startswith("**A title**\n\n| method | error |\n| --- | ---: |\n")


def test_as_dict_is_plain_and_lists_bold_cells():
    assert TABLE.as_dict()["rows"] == [["a|b", "0.1"], ["c", "0.25"]]
    assert TABLE.as_dict()["bold"] == [(0, 1)]


def test_page_keeps_its_words_and_gets_new_tables(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "Before\n<!-- table x/main -->\nold\n<!-- /table -->\nafter <!-- table y -->\nkept\n<!-- /table -->"
    )
    text, filled = put_tables_into(page, [TABLE])
    assert filled == ["x/main"]
    assert "old" not in text and "kept" in text and text.startswith("Before\n") and "| c | 0.25 |" in text
    page.write_text(text)
    assert put_tables_into(page, [TABLE])[0] == text
