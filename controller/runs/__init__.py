"""What runs leave behind: their folders, event logs, pictures and profiles."""
