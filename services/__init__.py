"""The four stages a message passes: ingest, guard, agent, dispatch. They never import one another."""
