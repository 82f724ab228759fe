"""Adapters to other libraries, a module each, which imports its library and no other's; each is an extra."""
