"""What every other part stands on: types, parameter spaces, registry, seeding, images, errors."""
