"""What the paper prints, as data: its tables cell by cell, and the values of its text."""
