"""From elsewhere: one call for each thing a server can be asked, and whole sources sent."""
