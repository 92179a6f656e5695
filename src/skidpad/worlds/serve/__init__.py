"""The built-in world as other simulators: their cars, their cameras and their wire formats, for clients that stay as they are."""
