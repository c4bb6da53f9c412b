"""Prompt templates and cleaning rules, one per file, in zh/ and en/."""

import hashlib
import re
from dataclasses import dataclass
from importlib import resources

_FIELD = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A template and its name ("zh/sentence"); `{field}` is replaced by a value."""

    name: str
    text: str

    @property
    def sha256(self) -> str:
        """Return the template's digest, which is stored in the manifest of every set made with it."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def language(self) -> str:
        """Return the language of the prompt and of its replies."""
        return self.name.partition("/")[0]

    @property
    def fields(self) -> frozenset[str]:
        """Return the names of the fields."""
        return frozenset(_FIELD.findall(self.text))

    def fill(self, **values: str) -> str:
        """Return the text with these values; fields within a value stay. Raises KeyError for a missing value."""
        return _FIELD.sub(lambda field: values[field.group(1)], self.text)


def load_template(name: str) -> PromptTemplate:
    """Return the template of this name; a name with a suffix is another file ("zh/cleaning.yaml": the rules of caption
    cleaning). Line ends at the end of the file are removed."""
    language, _, file = name.partition("/")
    file = file if "." in file else f"{file}.txt"
    return PromptTemplate(name, (resources.files("prompts") / language / file).read_text("utf-8").rstrip("\n"))
