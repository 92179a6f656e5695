"""Black boxes: networks that are only asked, as a Python callable, a program over a pipe or an HTTP address."""
