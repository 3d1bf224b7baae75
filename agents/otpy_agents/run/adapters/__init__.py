"""The adapters that come with otpy: four agent CLIs, and any other command."""
