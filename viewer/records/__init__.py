"""Rows and what follows from them: lineage, annotations, search, prices, limits and permissions."""
