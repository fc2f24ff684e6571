"""`leeway sim`: a chat with the bot in the terminal, on an installation of its own, with every dial at hand.

Business time runs with the system's, moved on by /time, and by half a minute between two messages of a customer.
"""
