"""For those who write a store: the contract that decides what a store is, with its crash and fault seams.

Subclass `StoreContract` (or `AsyncStoreContract`) and run it with pytest; nothing else is needed.
"""

from send_once.testing.async_contract import AsyncStoreContract
from send_once.testing.contract import StoreContract
from send_once.testing.entries import entry_of, settled
from send_once.testing.faults import AsyncFaultyStore, Fault, FaultyStore, StoreFault
from send_once.testing.killing import killed_between

__all__ = [
    "AsyncFaultyStore",
    "AsyncStoreContract",
    "Fault",
    "FaultyStore",
    "StoreContract",
    "StoreFault",
    "entry_of",
    "killed_between",
    "settled",
]
