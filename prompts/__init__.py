"""Text templates and cleaning rules, one per file, in zh/ and en/, and their fingerprints."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib import resources

_FIELD = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A template by its name ("zh/sentence"); `{field}` marks where a value goes."""

    name: str
    text: str

    @property
    def sha256(self) -> str:
        """The template's fingerprint, kept in the manifest of every set that used it."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def language(self) -> str:
        """The language that it is written in, and that it asks for."""
        return self.name.partition("/")[0]

    def fill(self, **values: str) -> str:
        """Put the values in, verbatim and once: what a value holds is never read as a template."""
        return _FIELD.sub(lambda field: values[field.group(1)], self.text)


def load_template(name: str) -> PromptTemplate:
    """The shipped template of that name, or with its suffix another file ("zh/cleaning.yaml": the rules by which
    captions are cleaned); a file's trailing line end is no part of it."""
    language, _, file = name.partition("/")
    file = file if "." in file else f"{file}.txt"
    return PromptTemplate(name, (resources.files("prompts") / language / file).read_text("utf-8").rstrip("\n"))
