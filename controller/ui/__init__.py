"""The live page: a proxy on loopback that the user's browser may speak to (docs/page.md)."""
