#!/usr/bin/env python3
"""tools/fetch_cifar10 against a server of this process: an archive of the same names, of small files.

    test_fetch.py FETCH [TEST ...]
"""
import contextlib
import hashlib
import http.server
import importlib.machinery
import importlib.util
import io
import pathlib
import socket
import sys
import tarfile
import tempfile
import threading
import unittest

SIZE = 3073 * 20


def load(path):
    loader = importlib.machinery.SourceFileLoader("fetch_cifar10", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("fetch_cifar10", loader))
    loader.exec_module(module)
    return module


def content(name):
    return hashlib.shake_256(name.encode()).digest(SIZE)


def archive(names, *more):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as to:
        for name in names:
            member = tarfile.TarInfo("cifar-10-batches-bin/" + name)
            member.size = SIZE
            to.addfile(member, io.BytesIO(content(name)))
        for member, data in more:
            member.size = len(data)
            to.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


class Server:
    """Serves `data`; `cut`: bytes after which the connection ends, once; `ranges`: whether it can resume."""

    def __init__(self, data, cut=None, ranges=True):
        self.data, self.cut, self.ranges, self.asked = data, cut, ranges, []

    def __enter__(self):
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                wanted = self.headers.get("Range")
                server.asked.append(wanted)
                start = int(wanted[6:-1]) if wanted and server.ranges else 0
                if self.path != "/a.tar.gz":
                    return self.send_error(404)
                self.send_response(206 if start else 200)
                if start:
                    self.send_header("Content-Range", f"bytes {start}-{len(server.data) - 1}/{len(server.data)}")
                self.send_header("Content-Length", str(len(server.data) - start))
                self.end_headers()
                piece, server.cut = server.data[start:server.cut], None
                self.wfile.write(piece)
                self.close_connection = True

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()

    def url(self, name="a.tar.gz"):
        return f"http://127.0.0.1:{self.http.server_port}/{name}"


class Fetch(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name) / "below" / "cifar"
        self.fetch = load(FETCH)
        self.fetch.RECORDS = {name: SIZE for name in self.fetch.RECORDS}
        self.expect(archive(self.fetch.RECORDS))

    def expect(self, data):
        self.data = data
        self.fetch.BYTES, self.fetch.SHA256 = len(data), hashlib.sha256(data).hexdigest()

    def call(self, url, code=0):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            self.assertEqual(self.fetch.main(["--from", url, str(self.folder)]), code, said.getvalue())
        return said.getvalue()

    def check_files(self):
        for name in self.fetch.RECORDS:
            self.assertEqual((self.folder / name).read_bytes(), content(name))
        self.assertEqual(sorted(p.name for p in self.folder.parent.iterdir()), ["cifar"])

    def check_none(self):
        self.assertFalse(self.folder.exists())
        self.assertFalse([p for p in self.folder.parent.glob("*") if "tmp" in p.name])

    def test_the_archive_is_downloaded_once(self):
        with Server(self.data) as server:
            self.assertIn('"format": "cifar10"', self.call(server.url()))
            self.check_files()
            self.assertIn("is there already", self.call(server.url()))
            self.assertEqual(server.asked, [None])

    def test_a_file_url_does_without_a_network(self):
        path = pathlib.Path(self.scratch.name) / "a.tar.gz"
        path.write_bytes(self.data)
        self.call(path.as_uri())
        self.check_files()

    def test_an_interrupted_download_is_resumed_or_begun_again(self):
        for ranges in [True, False]:
            with Server(self.data, cut=70000, ranges=ranges) as server:
                self.assertIn("call again to resume", self.call(server.url(), 1))
                self.check_none()
                self.call(server.url())
                self.check_files()
                self.assertEqual(server.asked[0], None)
                self.assertRegex(server.asked[1], r"bytes=\d+-")
            for path in self.folder.iterdir():
                path.unlink()
            self.folder.rmdir()

    def test_another_archive_is_refused_and_removed(self):
        with Server(self.data[:-1] + bytes([self.data[-1] ^ 1])) as server:
            self.assertRegex(self.call(server.url(), 1), "is not CIFAR-10: SHA-256 [0-9a-f]{64}, wants " + self.fetch.SHA256)
            self.assertEqual(list(self.folder.parent.iterdir()), [])
        with Server(self.data + b"more") as server:
            self.assertIn("more than the", self.call(server.url(), 1))

    def test_servers_that_are_not_there_are_told(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}/a.tar.gz"
            said = self.call(url, 1)
        self.assertIn(url + ": cannot be reached", said)
        self.assertIn("--from file://", said)
        with Server(self.data) as server:
            self.assertIn("404", self.call(server.url("b.tar.gz"), 1))
        self.assertIn("wants an http", self.call("ftp://x/a.tar.gz", 1))
        self.check_none()

    def test_hostile_members_are_left_out(self):
        def member(name, **more):
            made = tarfile.TarInfo(name)
            for key, value in more.items():
                setattr(made, key, value)
            return made, b""

        outside = pathlib.Path(self.scratch.name) / "outside"
        hostile = [member("../outside"), member(str(outside)), member("cifar-10-batches-bin/../../outside"),
                   member("cifar-10-batches-bin/link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
                   member("cifar-10-batches-bin/readme.html", type=tarfile.LNKTYPE, linkname="/etc/passwd"),
                   member("cifar-10-batches-bin/batches.meta.txt", type=tarfile.FIFOTYPE), member("elsewhere/readme.html")]
        self.expect(archive(self.fetch.RECORDS, *hostile))
        with Server(self.data) as server:
            self.call(server.url())
        self.check_files()
        self.assertEqual(len(list(self.folder.iterdir())), len(self.fetch.RECORDS))
        self.assertFalse(outside.exists())

    def test_an_archive_that_lacks_files_leaves_nothing(self):
        self.expect(archive(list(self.fetch.RECORDS)[1:]))
        with Server(self.data) as server:
            self.assertIn("lacks files", self.call(server.url(), 1))
        self.check_none()

    def test_the_original_is_the_one_that_is_published(self):
        fetch = load(FETCH)
        self.assertEqual((fetch.BYTES, fetch.SHA256[:8], len(fetch.SHA256)), (170052171, "c4a38c50", 64))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    FETCH = sys.argv.pop(1)
    unittest.main()
