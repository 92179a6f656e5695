"""The same scenarios offline and online: `skidpad compare`."""
