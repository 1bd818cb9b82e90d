"""What all commands share: options, exit codes, progress, tables on a terminal.

In: what a command does. Out: sentences, bars and an exit code. It knows no command.
"""
