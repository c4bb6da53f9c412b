"""Export formats: one module each, named after the format.

`export(stored, out)` fills the empty folder `out`; `LIMITS` declares what the format needs and what it leaves out.
"""

import shutil
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from querytruth.backends.files.durable_files import make_staging_folder, remove_abandoned_folders
from querytruth.backends.plugins import PluginPackage
from querytruth.errors import UserError
from querytruth.formats.set_description import DESCRIPTION_FILE, write_description
from querytruth.sets.set_files import StoredSet
from querytruth.sets.text_sieve import hide_addresses

EXPORTERS = PluginPackage("querytruth.formats.exporters", "format", "export")


def export_set(
    name: str,
    stored: StoredSet,
    out: Path,
    *,
    allow_loss: bool = False,
    facts: Collection[str] = (),
    private: bool = True,
) -> list[str]:
    """Export a set in the format into `out`, which must be new or empty, atomically. Return what the format leaves out,
    with the number of omitted places and names. `facts`: "places" (where images were taken, also in their files) and
    "names" (queries that name people, places or texts of an album) are exported only if listed. `private`: leave out
    the other metadata of image files, folders of this machine, and addresses in evidence. Raises UserError for an
    unknown format, and for a loss that changes metrics and is not allowed.
    """
    plugin = EXPORTERS.import_plugin(name)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError("export", out, "exists and is not empty", "give a new folder")
    lost: list[str] = plugin.LIMITS.check(stored, name, allow_loss)
    if "places" not in facts:
        if placed := stored.tables.count_places():
            lost.append(f"the places where {placed:,} of the images were taken (--with-places keeps them)")
        stored = replace(stored, tables=stored.tables.without_places())
    if "names" not in facts and (named := len(stored.tables.list_naming())):
        lost.append(f"{named:,} queries that name people, places or texts (--with-names keeps them)")
        stored = replace(stored, tables=stored.tables.without_names())
    tables = hide_addresses(stored.tables) if private else stored.tables
    stored = replace(stored, tables=tables, is_private=private or "places" not in facts)
    beside = out.absolute().with_name(f".{out.absolute().name}.export")
    remove_abandoned_folders(beside)  # of an export that was killed
    temporary = make_staging_folder(beside)
    try:
        plugin.export(stored, temporary)
        if not (temporary / DESCRIPTION_FILE).exists():  # every export names the version that it was made of
            write_description(stored, temporary)
        temporary.replace(out)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    finally:
        remove_abandoned_folders(beside)
    return lost
