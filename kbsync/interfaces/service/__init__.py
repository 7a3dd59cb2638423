"""The unit that the operating system runs at login: systemd's or launchd's, rendered here, put in place by commands."""
