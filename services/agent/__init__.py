"""WHAT IS THE ANSWER?

Reads      tickets that name conversations; a turn's messages, its history, the pending action, what an earlier attempt stored;
           approvals, handoffs and takeovers whose time has come, and what packs say is worth a reminder
Writes     the lease, turns, model calls, iterations, tool calls, pending actions, receipts, replies, handoffs;
           what the clock brings about: expired approvals, reminders, what is said of a handoff that nobody claims
Publishes  tickets to dispatch: the turn's reply, reminders, the clock's notices
Promises   one turn at a time in a conversation, in order; nothing is written by a worker that lost its lease; a write runs
           once, only for a stored confirmation, in one transaction with its receipt; never silence
"""
