"""The live page: a proxy on loopback for the user's browser (docs/page.md)."""
