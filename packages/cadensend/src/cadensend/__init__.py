"""A self-hosted engine for email courses: each lesson version reaches each reader at most once."""
