"""skidpad crash-tests driving networks before they drive."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("skidpad")
except PackageNotFoundError:  # a source tree on the path, not installed
    __version__ = "0.1.0"
