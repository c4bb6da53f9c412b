"""An audit that came with a set: sealed by its own digest, and wrong."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from querytruth.audit.audit_files import read_audit, write_audit
from querytruth.errors import UserError
from tests.small_audits import MANIFEST, TABLES

CHANGES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "no set": (lambda one: one.update(set=None), "`set`"),
    "no id": (lambda one: one.update(audit_id=None), "`audit_id`"),
    "systems by number": (lambda one: one.update(systems=[7]), r"`systems\[0\]`"),
    "a judge without a name": (lambda one: one.update(judge={"prompts": {}}), "`judge`"),
    "a missing depth": (lambda one: one.pop("depth"), "`depth`"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_sealed_manifest_with_a_wrong_key_is_one_line(change: str, tmp_path: Path) -> None:
    manifest = {**MANIFEST}
    write_audit(tmp_path / "audits" / "whole", manifest, TABLES)
    assert len(read_audit(tmp_path / "audits" / "whole").pool) == 1
    CHANGES[change][0](manifest)
    write_audit(tmp_path / "audits" / "first", manifest, TABLES)
    with pytest.raises(
        UserError, match=f"audit\\.json \\(read audit\\): does not have the expected form: .*{CHANGES[change][1]}"
    ):
        read_audit(tmp_path / "audits" / "first")


def test_one_changed_character_of_an_audit_s_manifest_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "audits" / "first"
    write_audit(folder, {**MANIFEST}, TABLES)
    file = folder / "audit.json"
    file.write_text(file.read_text().replace('"seed":0', '"seed":1').replace('"seed": 0', '"seed": 1'))
    with pytest.raises(UserError, match=r"audit\.json \(read audit\): changed since it was written"):
        read_audit(folder)


@pytest.mark.parametrize("name", TABLES)
def test_a_sealed_table_without_a_column_or_with_other_values_is_one_line(name: str, tmp_path: Path) -> None:
    for number, column in enumerate(TABLES[name]):
        for wrong, table in enumerate([TABLES[name].drop(columns=column), TABLES[name].assign(**{column: [None]})]):
            folder = tmp_path / "audits" / f"{number}.{wrong}"
            write_audit(folder, MANIFEST, TABLES | {name: table})
            with pytest.raises(
                UserError, match=rf"{name}\.parquet \(read audit\): is missing columns that an audit needs: .*{column}"
            ):
                read_audit(folder)
