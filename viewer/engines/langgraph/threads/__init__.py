"""The index of LangGraph's threads, which lists their checkpoints without bodies."""
