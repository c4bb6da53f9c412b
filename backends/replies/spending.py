"""What a run spends on questions to chat models, against its budget."""

from dataclasses import dataclass, field
from time import monotonic

from backends.chat import ChatAnswer, ChatRequest, Reply


@dataclass(slots=True)
class Spending:
    """The calls and tokens of a run so far, and its limits (None: no limit); `hours` count from its creation."""

    calls: int | None = None
    tokens: int | None = None
    hours: float | None = None
    spent_calls: int = 0
    spent_tokens: int = 0
    _start: float = field(default_factory=monotonic)

    @property
    def exhausted_limit(self) -> str:
        """Returns the limit that is reached, such as "calls"; "" for none."""
        if self.calls is not None and self.spent_calls >= self.calls:
            return "calls"
        if self.tokens is not None and self.spent_tokens >= self.tokens:
            return "tokens"
        return "hours" if self.hours is not None and monotonic() - self._start >= self.hours * 3600 else ""

    def count_allowed(self, wanted: int) -> int:
        """Returns how many of the wanted questions may be asked now."""
        if self.exhausted_limit:
            return 0
        return wanted if self.calls is None else min(wanted, self.calls - self.spent_calls)

    def count(self, request: ChatRequest, answer: ChatAnswer) -> None:
        """Counts an answer that arrived; a failure is a call without tokens."""
        self.spent_calls += 1
        if isinstance(answer, Reply):
            self.spent_tokens += count_tokens(answer, "".join(message.text for message in request.messages))

    def describe_limit(self, limit: str) -> str:
        """Returns the limit in words, such as "100 calls"."""
        value = getattr(self, limit)
        return f"{value:,} {limit if value != 1 else limit.removesuffix('s')}"


def count_tokens(reply: Reply, asked: str) -> int:
    """Returns the tokens in and out as the model counts them, else one per three bytes (about a Chinese character or
    half an English word)."""
    parts = ((reply.prompt_tokens, asked), (reply.completion_tokens, reply.text))
    return sum(-(-len(text.encode("utf-8", "replace")) // 3) if count is None else count for count, text in parts)
