"""Binary pairwise models: roof duality, persistency, enumeration."""
