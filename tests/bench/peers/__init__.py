"""The peers: the same four durable stages with the light job, written as each library's documents advise.

The light job of a stage: one deduplication row, committed; the message published to the next stage,
persistent and confirmed; then the acknowledgement. Queues are durable classic ones, each library's default,
which cost less than the quorum queues of the floor and of Leeway. All messages are of the same 500 bytes.
"""
