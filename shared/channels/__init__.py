"""What is known of the channels themselves, whichever stage asks: their traits, what their errors mean, what an account needs.

Facts from outside are those of the vendors' documentation as of November 2026.
"""
