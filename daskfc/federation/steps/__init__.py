"""The steps that parties perform, the handles for their results, rules for their arguments.

In: functions and their arguments. Out: calls that a party can check against what was announced.
May be imported by all rooms but `messages`.
"""
