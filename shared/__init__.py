"""Vocabulary and machinery that every stage uses: ids, tickets, time, settings, broker, database, models."""
