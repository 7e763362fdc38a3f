"""A graph whose source imports a saver and a store. Both are below namespace packages."""

from graphs import fan_graph
from langgraph.checkpoint.memory import MemorySaver
from langgraph.store.memory import InMemoryStore

saved = fan_graph().compile(checkpointer=MemorySaver(), store=InMemoryStore())
