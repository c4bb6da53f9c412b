"""A build's requests to chat models: asked once, stored, counted, and limited by a budget."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from backends.chat import ChatAnswer, ChatModel, ChatRequest, Failure, Reply
from backends.replies.cached_replies import AnsweredRequests, FindFault, answer_requests
from backends.replies.reply_store import ReplyStore
from backends.replies.spending import Spending
from builders.errors import UserError
from builders.manifest_records import InputRecord, ModelRecord, Provenance
from builders.records import content_id
from flows.definition_replies import AskingDefinition, open_definition_replies
from flows.definitions.common import BudgetOptions
from flows.steps import current_run


@dataclass(slots=True)
class ChatSession:
    """The requests of a build to chat models, with what they came to: models, digests of the answers, calls.
    `batches_by_role` collects them by role; a role that asks several times counts as one."""

    store: ReplyStore
    spending: Spending = field(default_factory=Spending)
    batches_by_role: dict[str, list[AnsweredRequests]] = field(default_factory=dict)
    models: dict[str, ChatModel] = field(default_factory=dict)

    def ask(
        self,
        role: str,
        model: ChatModel,
        requests: Sequence[ChatRequest],
        find_fault: FindFault = lambda _request, _reply: "",
    ) -> list[ChatAnswer]:
        """Returns the answers in the order of the requests; stored ones cost no call. `find_fault` says why a reply is
        of no use: many of them in a row stop the build."""
        run = current_run()
        with run.reporter.bar(role, len(requests), "replies") as advance:
            flags = {"offline": run.offline, "retry_failures": run.retry_failures}
            batch = answer_requests(
                self.store,
                model,
                requests,
                **flags,
                role=role,
                spending=self.spending,
                advance=advance,
                find_fault=find_fault,
            )
        self.batches_by_role.setdefault(role, []).append(batch)
        self.models[role] = model
        return batch.answers

    def provenance(self) -> Provenance:
        """Returns the models, and per role the digest of the answers as an input of the build."""
        inputs = []
        for role, batches in sorted(self.batches_by_role.items()):
            replies = sum(isinstance(answer, Reply) for batch in batches for answer in batch.answers)
            digest = content_id("replies", *[batch.digest for batch in batches])
            inputs.append(InputRecord(f"replies: {role}", digest, {"replies": replies}))
        models = [ModelRecord(role, **model.identity.as_record()) for role, model in sorted(self.models.items())]
        return Provenance(inputs, models)

    def call_counts(self) -> dict[str, dict[str, int]]:
        """Returns per role the calls of this run, and the numbers of stored and missing answers."""
        return {
            role: {name: sum(getattr(one, name) for one in rounds) for name in ("calls", "hits", "missing")}
            for role, rounds in sorted(self.batches_by_role.items())
        }


def open_chat_session(definition: AskingDefinition) -> ChatSession:
    """Opens a session on the reply store that the definition names, or on the one beside the set's versions."""
    return ChatSession(open_definition_replies(definition), start_spending(definition.budget))


def start_spending(budget: BudgetOptions | None) -> Spending:
    """Returns the spending of a run that begins now."""
    return Spending(**budget.model_dump()) if budget is not None else Spending()


def require_a_reply(stage: str, name: str, answers: Sequence[ChatAnswer]) -> None:
    """Raises UserError where questions were asked and the model answered none of them: nothing would come of it."""
    failures = [answer for answer in answers if isinstance(answer, Failure)]
    if failures and len(failures) == len(answers):
        reason = f"got no reply to any of {len(answers)} questions ({failures[0].reason}: {failures[0].detail})"
        next_step = "run without --offline" if current_run().offline else "fix that, then run the same command"
        raise UserError(stage, name, reason, next_step)


def choose_ledger_bucket(failure: Failure) -> str:
    """Returns the ledger's bucket of an item whose question failed: pending where the next run may have more luck."""
    return "rejected" if failure.kind == "final" else "pending"
