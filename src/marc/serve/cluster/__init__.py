"""Memories in other processes and on other machines, over Ray."""
