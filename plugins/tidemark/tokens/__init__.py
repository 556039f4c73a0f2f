"""Token callbacks: functions that make a token or a password whenever a process logs in.

Doors: callbacks, clouds.

It keeps no token and shows none, and it calls nothing that the installation has not listed, but for
a cloud's own servers.
"""
