"""What LangGraph itself does: by_langgraph.py STORE ENTRY_POINT THREAD ACTIONS OPTIONS, the last two as JSON.

STORE is as in record.py. Each action changes the state, or runs the graph, or does both:

    at            the id of a checkpoint to begin at; the thread's last one if it is missing
    values        what update_state is given, as the node as_node
    goto          what a Command with the values goes to
    sends         of such a Command: pairs of a node and its input
    overwrite     those of the values that replace what a reducer would add to
    inner         whether the values are those of the subgraph that waits
    at_change     whether the run then begins at the subgraph's changed checkpoint
    input         the input of a new turn
    answer        of an interrupt; a list if several wait, in their order
    before, after the nodes of static breakpoints
    late          whether checkpoints are written at the exit only

Options: async, in_turn (whether nodes run one after the other), and the serializer: encrypted or pickled.
Printed are the result and the next nodes as JSON.
"""

import asyncio
import importlib
import inspect
import json
import sys
from typing import Any

from langchain_core.messages import convert_to_messages
from langgraph.types import Command, Send
from record import IN_TURN, async_saver, opened

RUNS = {"input", "answer", "run"}


def main(store: str, entry_point: str, thread: str, actions: str, options: str) -> None:
    module, _colon, name = entry_point.partition(":")
    graph = getattr(importlib.import_module(module), name)
    chosen = json.loads(options)
    if chosen.get("async"):
        asyncio.run(act_async(graph, store, thread, json.loads(actions)))
        return
    with opened(store) as saver:
        saver.serde = serializer(chosen.get("serializer"), saver.serde)
        bound = graph.copy(update={"checkpointer": saver})
        bound = bound.with_config(IN_TURN) if chosen.get("in_turn") else bound
        for action in json.loads(actions):
            act(bound, thread, action)
        show(bound.get_state({"configurable": {"thread_id": thread}}))


def act(graph: Any, thread: str, action: dict[str, Any]) -> None:
    config = start_of(thread, action)
    if "values" in action or "as_node" in action:
        place = (
            graph.get_state(config, subgraphs=True).tasks[0].state.config if action.get("inner") else config
        )
        changed = graph.update_state(place, values_of(action), as_node=action.get("as_node"))
        is_last = action.get("inner") and not action.get("at_change")
        config = start_of(thread, {}) if is_last else changed
    if RUNS & set(action):
        try:
            graph.invoke(given_by(action, graph.get_state(config)), config, **ways(graph, action))
        except ValueError as error:
            print(error)


async def act_async(graph: Any, store: str, thread: str, actions: list[dict[str, Any]]) -> None:
    async with async_saver(store) as saver:
        await saver.setup()
        bound = graph.copy(update={"checkpointer": saver})
        for action in actions:
            config = start_of(thread, action)
            if "values" in action:
                config = await bound.aupdate_state(config, values_of(action), as_node=action.get("as_node"))
            if RUNS & set(action):
                given = given_by(action, await bound.aget_state(config))
                await bound.ainvoke(given, config, **ways(bound, action))
        show(await bound.aget_state({"configurable": {"thread_id": thread}}))


def start_of(thread: str, action: dict[str, Any]) -> dict[str, Any]:
    place = {"thread_id": thread, "checkpoint_ns": ""}
    return {"configurable": place | ({"checkpoint_id": action["at"]} if action.get("at") else {})}


def values_of(action: dict[str, Any]) -> Any:
    values = dict(action.get("values") or {})
    if "messages" in values:
        values["messages"] = convert_to_messages(values["messages"])
    for name in action.get("overwrite") or []:
        from langgraph.types import Overwrite

        values[name] = Overwrite(values[name])
    goto = [*action.get("goto", ()), *(Send(*one) for one in action.get("sends", ()))]
    return Command(update=values, goto=goto) if goto else values


def given_by(action: dict[str, Any], state: Any) -> Any:
    answer = action.get("answer")
    if isinstance(answer, list):
        # The attribute's name before 0.6 comes second.
        waiting = [one for task in state.tasks for one in task.interrupts]
        ids = [getattr(one, "id", None) or one.interrupt_id for one in waiting]
        return Command(resume=dict(zip(ids, answer, strict=True)))
    return Command(resume=answer) if answer is not None else action.get("input")


def ways(graph: Any, action: dict[str, Any]) -> dict[str, Any]:
    named = inspect.signature(graph.stream).parameters
    late = {"durability": "exit"} if "durability" in named else {}
    # Older versions say it with another name, or write each step.
    late = late or ({"checkpoint_during": False} if "checkpoint_during" in named else {})
    stops = {f"interrupt_{name}": action[name] for name in ("before", "after") if name in action}
    return stops | (late if action.get("late") else {})


def serializer(kind: str | None, serde: Any) -> Any:
    if kind == "encrypted":
        from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

        return EncryptedSerializer(Cipher(), serde)
    return type(serde)(pickle_fallback=True) if kind == "pickled" else serde


class Cipher:
    """Not a secret one."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "xor", bytes(one ^ 42 for one in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return bytes(one ^ 42 for one in ciphertext)


def show(state: Any) -> None:
    values = state.values
    messages = values.get("messages") if isinstance(values, dict) else None
    result = str(messages[-1].content) if messages else values
    print(json.dumps({"result": result, "next": list(state.next)}, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:6])
