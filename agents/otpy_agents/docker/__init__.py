"""A client of the Docker Engine API, which podman speaks too, and the logs of its containers."""
