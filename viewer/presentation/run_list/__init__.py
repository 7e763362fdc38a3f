"""The table of runs on the home page and the pages of locations: filters, order, pages and rows."""
