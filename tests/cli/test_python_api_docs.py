"""docs/python.md and docs/python.ipynb do what they say."""

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from querytruth.sample_album.album_files import write_sample_album

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.DOTALL)
PAGES = ("python.md", "zh/python.md")
TASK = re.compile(r"^\*\*(\d+)\.", re.MULTILINE)


def read_blocks(page: str) -> list[tuple[str, str]]:
    return BLOCK.findall((DOCS / page).read_text("utf-8"))


def run_blocks(page: str) -> Iterator[tuple[str, str, str]]:
    """The code of each block, its output in the page, and what it prints."""
    names: dict[str, Any] = {}
    for code, expected in read_blocks(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), names)
        yield code, expected, printed.getvalue()


def test_the_pages_have_ten_tasks_of_at_most_five_lines_and_the_same_code() -> None:
    for page in PAGES:
        text = (DOCS / page).read_text("utf-8")
        assert TASK.findall(text) == [str(number) for number in range(1, 11)]
        assert max(len(list(filter(None, code.splitlines()))) for code, _ in read_blocks(page)[1:11]) <= 5
    assert read_blocks(PAGES[0]) == read_blocks(PAGES[1])


@pytest.mark.thorough
def test_every_block_runs_on_a_small_album(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_sample_album(Path("album"), 40)
    ran = list(run_blocks(PAGES[0]))
    assert len(ran) == 14 and all(printed for _, expected, printed in ran if expected)


@pytest.mark.slow
def test_every_block_prints_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_sample_album(Path("album"))
    for code, expected, printed in run_blocks(PAGES[0]):
        assert printed == expected, code


@pytest.mark.thorough
def test_the_notebook_runs_and_shows_its_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(DOCS.parent))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    write_sample_album(tmp_path / "album", 40)
    notebook = nbformat.read(DOCS / "python.ipynb", as_version=4)
    stored = [kinds_of_outputs(cell) for cell in notebook.cells]
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert [kinds_of_outputs(cell) for cell in notebook.cells] == stored
    shown = "".join(output.data.get("text/html", "") for cell in notebook.cells for output in displayed(cell))
    assert "data:image/jpeg;base64," in shown and "recall set notebook/v1" in shown and "lexical, random on" in shown


def displayed(cell: Any) -> list[Any]:
    return [output for output in cell.get("outputs", []) if output.output_type == "execute_result"]


def kinds_of_outputs(cell: Any) -> list[str]:
    return [output.output_type for output in cell.get("outputs", [])]
