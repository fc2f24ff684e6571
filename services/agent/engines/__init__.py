"""How a turn is understood: engines turn messages into a reply, a proposed action or a hand-over. They write nothing."""
