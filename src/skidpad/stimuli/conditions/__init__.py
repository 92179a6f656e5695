"""Conditions that a camera on a road meets, in physical units: air, precipitation, light.

Each is a stimulus (`skidpad list transforms`) that also states how it gets harder (`severities`) and takes frames with their capture:
streaks fall with time, fog thickens with the distance that the camera's ground plane gives. See docs/conditions.md.
"""
