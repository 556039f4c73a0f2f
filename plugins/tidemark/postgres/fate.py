"""What a retry can do about an error of Postgres: one table for all rooms, by SQLSTATE.

Not by psycopg2's classes: a row that is too big is an OperationalError there, as a server that is
away. The conditions are those of the manual's appendix A; a trigger may raise any code besides.
"""

from enum import StrEnum

import psycopg2


class Fate(StrEnum):
    """Where the cause lies."""

    server = "server"
    """It is gone, is full, gave up, or another session was in the way: a retry may help."""
    row = "row"
    """A value or a row that can never be taken as it is."""
    schema = "schema"
    """The statement does not fit the tables, or the table can't be made so."""
    right = "right"
    """The role may not do it."""


OF_CLASS = {
    "00": Fate.schema,  # the next ones: no error, or none of our statements
    "01": Fate.schema,
    "02": Fate.schema,
    "03": Fate.schema,
    "08": Fate.server,  # the connection
    "09": Fate.row,  # a trigger's action
    "0A": Fate.schema,  # not supported
    "0B": Fate.schema,
    "0F": Fate.row,
    "0L": Fate.right,
    "0P": Fate.right,
    "0Z": Fate.row,
    "10": Fate.row,  # XQuery
    "20": Fate.row,  # no case of a CASE, in a trigger
    "21": Fate.row,  # more than one row
    "22": Fate.row,  # a value
    "23": Fate.row,  # a constraint
    "24": Fate.schema,
    "25": Fate.server,  # a transaction that was ended, or may not write
    "26": Fate.schema,
    "27": Fate.row,  # a trigger changes what its statement changes
    "28": Fate.right,  # the login
    "2B": Fate.schema,
    "2D": Fate.row,  # a trigger that would end the transaction
    "2F": Fate.row,  # the next ones: a function, which a trigger calls
    "34": Fate.row,
    "38": Fate.row,
    "39": Fate.row,
    "3B": Fate.row,
    "3D": Fate.schema,
    "3F": Fate.schema,
    "40": Fate.server,  # serialization, a deadlock
    "42": Fate.schema,  # names, types
    "44": Fate.row,  # WITH CHECK OPTION
    "53": Fate.server,  # memory, disk, connections, limits of the configuration
    "54": Fate.row,  # a limit of the program: of a row, an index entry, a document, a nesting
    "55": Fate.server,  # the table is not in a state for the statement, as in a publication
    "57": Fate.server,  # an operator, or a time-out
    "58": Fate.server,  # the system's files
    "72": Fate.server,  # a snapshot that is too old
    "F0": Fate.server,  # the server's own files
    "HV": Fate.row,  # a foreign table, which a trigger writes to
    "P0": Fate.row,  # RAISE
    "XX": Fate.server,
}
"""By the first two characters of a SQLSTATE."""

OF_CODE = {
    "42501": Fate.right,
    "54011": Fate.schema,  # too many columns
    "54023": Fate.schema,  # too many arguments
    "55P03": Fate.server,  # a lock was not to be had
    "HV00N": Fate.server,  # the foreign server is away
}
"""Where one differs from its class."""


def fate_of(sqlstate: str) -> Fate:
    """Where the cause of a SQLSTATE lies; one that Postgres lacks is of a trigger's own."""
    return OF_CODE.get(sqlstate) or OF_CLASS.get(sqlstate[:2], Fate.row)


def fate(error: psycopg2.Error) -> Fate:
    """Where the cause lies; without a SQLSTATE there was no answer, unless the client refuses."""
    if error.pgcode:
        return fate_of(error.pgcode)
    is_ours = isinstance(error, (psycopg2.ProgrammingError, psycopg2.DataError))
    return Fate.schema if is_ours else Fate.server
