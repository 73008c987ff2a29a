"""Orders over HTTP, kept in PostgreSQL: app.py PORT DATABASE_PORT [--table NAME] [--pool CONNECTIONS]

GET /orders?customer=N answers how many orders a customer has and what they cost; POST /orders with
{"customer": N, "item": "...", "cents": N} adds one. Without --pool each request connects to the database anew.
"""

import argparse
import contextlib
import json
import queue
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import psycopg2

options = argparse.ArgumentParser()
options.add_argument("port", type=int)
options.add_argument("database", type=int)
options.add_argument("--table", choices=["indexed", "scanned"], default="indexed")
options.add_argument("--pool", type=int, default=0, metavar="CONNECTIONS")
options = options.parse_args()

READ = f"select count(*), coalesce(sum(cents), 0) from {options.table} where customer = %s"
WRITE = f"insert into {options.table} (customer, item, cents) values (%s, %s, %s) returning id"


def connect():
    connection = psycopg2.connect(host="127.0.0.1", port=options.database, user="app", dbname="postgres")
    connection.autocommit = True
    return connection


pool = queue.LifoQueue()
for _ in range(options.pool):
    pool.put(connect())


@contextlib.contextmanager
def connection():
    if options.pool:
        taken = pool.get()
        try:
            yield taken
        finally:
            pool.put(taken)
    else:
        with contextlib.closing(connect()) as fresh:
            yield fresh


def one_row(query, values):
    with connection() as database, database.cursor() as cursor:
        cursor.execute(query, values)
        return cursor.fetchone()


class Orders(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer is one write

    def do_GET(self):
        url = urlsplit(self.path)
        if url.path == "/":
            return self.answer(200, {"table": options.table})
        customer = parse_qs(url.query).get("customer", [""])[0]
        if url.path != "/orders" or not customer.isdecimal():
            return self.answer(404, {"error": "ask for /orders?customer=N"})
        count, cents = one_row(READ, (int(customer),))
        return self.answer(200, {"customer": int(customer), "orders": count, "cents": cents})

    def do_POST(self):
        order = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        (number,) = one_row(WRITE, (order["customer"], order["item"], order["cents"]))
        return self.answer(201, {"id": number})

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 1024


Server(("127.0.0.1", options.port), Orders).serve_forever()
