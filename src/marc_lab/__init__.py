"""The embedded lab: a small world of drawn pictures, its shifts, and encoders trained on it.

A laboratory in miniature. It shows how a memory behaves in one space and in another; it says
nothing about real photographs.
"""
