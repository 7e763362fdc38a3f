"""What runs on which version of LangGraph: its runner's tests, and rows next to LangGraph itself."""
