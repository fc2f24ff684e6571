"""Language models behind one port: real endpoints through the openai client, and the rule-based mock."""
