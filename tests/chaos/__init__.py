"""Many messages while everything breaks, at moments that a seed decides; afterwards every message is accounted for."""
