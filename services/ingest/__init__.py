"""A MESSAGE ARRIVES.

Reads      webhooks over HTTP: `/hooks/{channel}/{account}`; and from providers what no webhook brings: Telegram's updates where
           an account polls, Twilio's messages that were missed, the content of recordings and pictures; every ten seconds, for
           the metrics, what waits in the whole record
Writes     messages and their parts, raw payloads, who people are and what they announce of it, what the conversation owes the
           guard, statuses of our sends; how far each account was fetched, and by whom; the content of parts
Publishes  tickets to the guard: the conversations that got something new
Promises   200 only after the commit; a message is stored once, whichever way and however often it comes; 503 only when not all of
           a request is known to be stored; nothing fetched is forgotten at a provider before it is committed; an account, or a
           part, is fetched by one process at a time
"""
