"""Interprets the ids, values and channels of LangGraph's checkpoints."""
