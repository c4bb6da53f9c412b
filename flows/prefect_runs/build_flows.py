"""The flow of a kind of set: it loads the definition, builds, publishes, and returns a state with the result."""

from functools import cache
from typing import Any

from prefect import Flow
from prefect.client.schemas.objects import State

from flows.prefect_runs.build_parameters import GeneratedBuild
from flows.prefect_runs.flow_runner import build_and_publish, build_run_name, execute_build
from flows.prefect_runs.generated_flows import ask_for_choices
from flows.set_kind import SetKind


@cache
def create_build_flow(kind: SetKind) -> Flow[Any, Any]:
    """The Prefect flow that builds sets of this kind; its one parameter is the kind's `parameters`."""

    def run_build(build: Any) -> State[Any]:
        def work(definition: Any) -> State[Any]:
            if isinstance(build, GeneratedBuild) and build.ask_people:
                ask_for_choices(definition, build.source)
            return build_and_publish(kind, definition)

        return execute_build(build, work)

    run_build.__name__, run_build.__doc__ = kind.flow_name, kind.summary
    run_build.__annotations__ = {"build": kind.parameters, "return": State[Any]}
    name = kind.flow_name.replace("_", "-")
    return Flow(run_build, name=name, flow_run_name=build_run_name, persist_result=False)
