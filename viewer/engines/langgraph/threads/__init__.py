"""The index of LangGraph's threads: their checkpoints and rows, listed without bodies."""
