"""Work with this computer: files, processes, addresses, certificates. No other folder of `controller` is imported."""
