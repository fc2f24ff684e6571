"""A MESSAGE ARRIVES.

Reads      webhooks over HTTP: `/hooks/{channel}/{account}`
Writes     messages and raw payloads, what the conversation owes the guard, statuses of our sends
Publishes  tickets to the guard: the conversations that got something new
Promises   200 only after the commit; a message is stored once, whatever is repeated; 503 only when the commit failed
"""
