"""The tables of LangGraph's checkpoint savers, read alike from SQLite and PostgreSQL."""
