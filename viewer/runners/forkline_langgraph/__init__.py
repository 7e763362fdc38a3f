"""The part of the runner that knows LangGraph. Imported in the project's interpreter."""
