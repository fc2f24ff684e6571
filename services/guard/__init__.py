"""MAY IT BE ANSWERED?

Reads      tickets that name conversations; their unjudged messages and what bears on them
Writes     the messages' sequence and verdict, what the conversation owes the agent, handoffs, consent, notices, flags;
           what edits and deletions make of the messages they are about
Publishes  tickets to the agent where nothing need be waited for, and to dispatch for notices and side calls (typing, presses)
Promises   every message is judged once, in the channel's order, on a snapshot that was still true when it was recorded
"""
