"""The table of runs on the home page and on pages of locations: filters, order, pages and rows."""
