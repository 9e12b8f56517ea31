"""A provider that limits, or does not."""

import http.server
import threading

import pytest

# They are of workers, and want their broker and store.
collect_ignore = ["asgi_app.py", "celery_app.py"]


class Provider(http.server.BaseHTTPRequestHandler):
    """Answers what the query says, and counts what it works on at once."""

    protocol_version = "HTTP/1.1"
    lock = threading.Lock()
    now = most = served = 0

    def do_GET(self):
        cls = type(self)
        with cls.lock:
            cls.now += 1
            cls.served += 1
            cls.most = max(cls.most, cls.now)
        try:
            self.answer()
        finally:
            with cls.lock:
                cls.now -= 1

    do_HEAD = do_GET

    def answer(self):
        status, _, rest = self.path.lstrip("/").partition("?")
        self.send_response(int(status))
        for pair in filter(None, rest.split("&")):
            name, _, value = pair.partition("=")
            self.send_header(name, value.replace("~", "=").replace("'", '"').replace("_", " "))
        body = b"" if self.command == "HEAD" or status == "204" else b"hello" * 1_000
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


@pytest.fixture
def provider():
    """Its address, and the class that counts."""
    kind = type("Counting", (Provider,), {})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    kind.url = f"http://127.0.0.1:{server.server_port}"
    yield kind
    server.shutdown()
    thread.join()
    server.server_close()
