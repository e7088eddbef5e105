"""Steps before and around a driver's run: an application is read, checked, planned and started."""
