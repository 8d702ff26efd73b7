"""Adapters in Python, a file a library; each is imported when the first object of its library is met."""
