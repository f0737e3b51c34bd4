"""Reports of runs, from their journals alone: a table, CSV, and an HTML page with the conversations."""
