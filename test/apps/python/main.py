"""Greets with the variable GREETING, and shows the names (never the values) of the variables it received."""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

greeting = os.environ.get("GREETING", "Hello! Set the variable GREETING and see it change here.")
names = ", ".join(sorted(os.environ))


class Greeter(BaseHTTPRequestHandler):
    def do_GET(self):
        body = "ok\n" if self.path == "/healthz" else f"{greeting}\n\nI received: {names}\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format, *arguments):
        if self.path != "/healthz":
            print(f"{self.command} {self.path}")


port = int(os.environ["PORT"])
print(f"listening on port {port}")
ThreadingHTTPServer(("", port), Greeter).serve_forever()
