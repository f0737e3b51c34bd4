"""Tools: definitions and handlers, safety and approval, running calls, results and recovery."""
