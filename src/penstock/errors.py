"""The one kind of exception that Penstock raises for what a user can mend."""


class PenstockError(ValueError):
    """Something the user can mend; the message says where and how."""
