"""Executors in pods of Kubernetes."""
