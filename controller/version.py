"""The version of Sparkpace that is installed."""

from importlib.metadata import version

VERSION = version("sparkpace")
