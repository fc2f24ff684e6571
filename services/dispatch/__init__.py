"""THE REPLY GOES OUT.

Reads      tickets that name outbounds; what is allowed for their conversation as it is now; tickets that name messages, for which
           side calls are made (read, typing, an acknowledged press): tried once, beside all sends, owed to nobody
Writes     the claim of a send before the provider is called, its outcome, drafts, superseded and discarded replies; what a
           provider's answer says beyond the send: a pause, an account that is off, a closed window, an opt-out
Publishes  tickets to itself: the conversation's next reply
Promises   a reply leaves at most once and in order; an outcome nobody knows is never sent again by itself, except under
           the same idempotency key; the mode that counts is the one when the reply is about to leave
"""
