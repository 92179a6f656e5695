"""Files of networks, read without running code from them."""
