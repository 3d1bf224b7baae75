"""What a work list says: TOML in, frozen values out."""
