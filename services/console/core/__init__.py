"""What an operator's wish comes to: pure decisions on locked facts."""
