"""A web app with the standard library alone: greets with GREETING."""
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Greeter(BaseHTTPRequestHandler):
    def do_GET(self):
        body = "ok\n" if self.path == "/healthz" else os.environ.get("GREETING", "Hello from Berth") + "\n"
        self.send_response(200)
        self.send_header("content-type", "text/plain; charset=utf-8")
        self.end_headers()
        self.wfile.write(body.encode())


port = int(os.environ["PORT"])
print(f"listening on {port}", flush=True)
ThreadingHTTPServer(("", port), Greeter).serve_forever()
