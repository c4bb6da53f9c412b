"""Text templates, one per file, in zh/ and en/, and their fingerprints."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib import resources

_FIELD = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A template by its name ("zh/sentence"); `{field}` marks where a value goes."""

    name: str
    text: str

    @property
    def sha256(self) -> str:
        """The template's fingerprint, kept in the manifest of every set that used it."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def fill(self, **values: str) -> str:
        """Put the values in, verbatim and once: what a value holds is never read as a template."""
        return _FIELD.sub(lambda field: values[field.group(1)], self.text)


def load(name: str) -> Prompt:
    """The shipped template of that name; a file's trailing line end is no part of it."""
    language, _, file = name.partition("/")
    return Prompt(name, (resources.files("prompts") / language / f"{file}.txt").read_text("utf-8").rstrip("\n"))
