"""Glossaries that clients store on the server."""
