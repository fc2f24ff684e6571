"""THE REPLY GOES OUT.

Reads      tickets that name outbounds; what is allowed for their conversation as it is now
Writes     the claim of a send before the provider is called, its outcome, drafts, superseded and discarded replies
Publishes  tickets to itself: the conversation's next reply
Promises   a reply leaves at most once and in order; an outcome nobody knows is never sent again by itself, except under
           the same idempotency key; the mode that counts is the one when the reply is about to leave
"""
