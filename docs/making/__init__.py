"""How the site is made: the reference from the code, the look, and what the build does with links."""
