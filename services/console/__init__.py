"""A PERSON STEPS IN.

Reads      what operators decide, and what waits for them: drafts, approvals, handoffs; requests for feeds
Writes     each decision in one transaction with its entry in the audit log: drafts sent, edited and discarded,
           approvals given and declined, handoffs opened, claimed, answered and released
Publishes  tickets to dispatch for what was queued, and to the agent for what was decided or released
Promises   of two decisions about one thing the first holds, and the second is told whose that was; what an operator
           did not see is not sent; nothing is executed here: an approval is carried out by the agent alone
"""
