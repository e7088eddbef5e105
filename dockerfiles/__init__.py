"""Container files: executor image, node image, compose file, engine script. A package so that a wheel carries them."""
