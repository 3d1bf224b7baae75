"""Where an attempt runs: as a process, in namespaces, or in a container."""
