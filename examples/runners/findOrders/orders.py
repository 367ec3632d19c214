"""Makes an SQLite file with a few orders: python3 orders.py FILE"""

import sqlite3
import sys

with sqlite3.connect(sys.argv[1]) as shop:
    shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, total REAL, paid INTEGER)")
    orders = [(1, "Ada", 40, 1), (2, "Grace", 7, 0), (3, "Ada", 12.5, 0)]
    shop.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", orders)
