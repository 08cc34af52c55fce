#!/usr/bin/env python3
"""hub_server.py DIRECTORY PORT_FILE [CERTIFICATE KEY] - a server on the loopback that speaks as the Hugging Face hub does, faults included.

DIRECTORY/ORG/NAME/REVISION/... are the files of a repository; DIRECTORY/NAME/REVISION/... those of one without an owner. The
commit of a revision is the SHA-1 of its listing. Files ending in .safetensors, .bin, .h5 and .onnx are large: they are
answered with a redirect to another server (the same process, another port), as the hub redirects to its storage.

The ports are written to PORT_FILE as "HUB STORAGE"; with a certificate both speak TLS, and a third port, "CONTROL", does not.
Control, by whom the tests are (PUT with JSON, GET):

    PUT /control/faults   [{"path": REGEX, "do": ..., "times": N (1), "server": "hub"|"storage" (both)}, ...]
                          do: status (code, headers, text), cut (after), short (by), longer (by), corrupt (at), no_range,
                          wrong_range, slow (pause), redirect (to, code), text (text)
    PUT /control/need     {"token": "...", "repos": [...]}: these repositories answer nobody without this token
    PUT /control/certificate  {"certificate": FILE, "key": FILE}: from now on these
    GET /control/log      the requests so far, one JSON object a line; forgets them

Python's standard library only.
"""

import hashlib
import http.server
import json
import os
import re
import ssl
import sys
import threading
import time
import urllib.parse

LARGE = (".safetensors", ".bin", ".h5", ".onnx")
root, ports, lock = sys.argv[1], {}, threading.Lock()
faults, need, log = [], {}, []
tls = None  # ssl.SSLContext of hub and storage


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def git_blob(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def read(*parts):
    with open(os.path.join(*parts), "rb") as f:
        return f.read()


def commit_of(directory):
    names = sorted(os.path.join(d, n) for d, _, ns in os.walk(directory) for n in ns)
    return hashlib.sha1("".join(n + sha256(read(n)) for n in names).encode()).hexdigest()


def revisions(repo):
    base = os.path.join(root, repo)
    return {r: os.path.join(base, r) for r in os.listdir(base)} if os.path.isdir(base) else {}


def resolve(repo, revision):
    """Directory and commit of a revision given by name or commit; None when there is none."""
    for name, directory in revisions(repo).items():
        commit = commit_of(directory)
        if revision in (name, commit):
            return directory, commit
    return None


def base_of(server):
    return "%s://127.0.0.1:%d" % ("https" if tls else "http", ports[server])


def serve_certificate(certificate, key):
    global tls
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    tls = context


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def which(self):
        return next(name for name, port in ports.items() if port == self.server.server_port)

    def find_fault(self):
        with lock:
            for f in faults:
                if f.get("times", 1) > 0 and f.get("server", self.which()) == self.which() and re.search(f["path"], self.path):
                    f["times"] = f.get("times", 1) - 1
                    return f
        return {"do": None}

    def answer(self, code, body=b"", headers=(), length=None):
        self.send_response(code)
        for key, value in dict(headers).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def json(self, value, headers=()):
        self.answer(200, json.dumps(value).encode(), {"Content-Type": "application/json", **dict(headers)})

    def refuse(self, code, error, message):
        self.answer(code, json.dumps({"error": message}).encode(), {"X-Error-Code": error, "X-Error-Message": message})

    def do_PUT(self):
        value = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with lock:
            if self.path == "/control/faults":
                faults[:] = value
            elif self.path == "/control/certificate":
                serve_certificate(value["certificate"], value["key"])
            else:
                need.clear()
                need.update(value)
        self.answer(200)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        if self.path == "/control/log":
            with lock:
                text = "".join(json.dumps(line) + "\n" for line in log)
                log.clear()
            return self.answer(200, text.encode())
        fault = self.find_fault()
        with lock:
            log.append({"server": self.which(), "method": self.command, "path": self.path, "range": self.headers.get("Range"),
                        "authorization": self.headers.get("Authorization")})
        if fault["do"] == "status":
            return self.answer(fault["code"], fault.get("text", "no").encode(), fault.get("headers", {}))
        if fault["do"] == "text":
            return self.answer(200, fault["text"].encode())
        if fault["do"] == "redirect":
            return self.answer(fault.get("code", 302), b"", {"Location": fault["to"].format(**ports, path=self.path)})
        path = urllib.parse.urlsplit(self.path).path
        if self.which() == "storage":
            return self.content(read(root, urllib.parse.unquote(path).lstrip("/")), {"ETag": '"of the storage"'}, fault)
        return self.hub(path, fault)

    def may_see(self, repo):
        return repo not in need.get("repos", []) or self.headers.get("Authorization") == "Bearer " + need["token"]

    def hub(self, path, fault):
        api = re.fullmatch(r"/api/models/(.+?)/(revision|tree)/([^/]+)(?:/(.+))?", path)
        file = re.fullmatch(r"/(.+?)/resolve/([^/]+)/(.+)", path)
        if not api and not file:
            return self.refuse(404, "", "Not Found")
        repo = api[1] if api else file[1]
        revision = urllib.parse.unquote(api[3] if api else file[2])
        if not revisions(repo) or not self.may_see(repo):
            known = self.headers.get("Authorization") is not None
            return self.refuse(404 if known else 401, "RepoNotFound", "Repository not found")
        found = resolve(repo, revision)
        if found is None:
            return self.refuse(404, "RevisionNotFound", "Invalid rev id: " + revision)
        directory, commit = found
        if api and api[2] == "revision":
            return self.json({"id": repo, "sha": commit, "siblings": []})
        if api:
            inside = urllib.parse.unquote(api[4] or "")
            if not os.path.isdir(os.path.join(directory, inside)):
                return self.refuse(404, "EntryNotFound", "Entry not found")
            return self.tree(os.path.join(directory, inside), inside and inside + "/")
        return self.file(directory, commit, urllib.parse.unquote(file[3]), fault)

    def tree(self, directory, inside):
        entries = []
        for name in sorted(os.listdir(directory)):
            path = os.path.join(directory, name)
            if os.path.isdir(path):
                entries.append({"type": "directory", "oid": "0" * 40, "size": 0, "path": inside + name})
                continue
            data = read(path)
            entry = {"type": "file", "oid": git_blob(data), "size": len(data), "path": inside + name}
            if name.endswith(LARGE):
                pointer = b"pointer of " + name.encode()
                entry.update(oid=git_blob(pointer), lfs={"oid": sha256(data), "size": len(data), "pointerSize": len(pointer)})
            entries.append(entry)
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        start, page = int(query.get("cursor", ["0"])[0]), 5  # small pages, so that every list has several
        here = base_of("hub") + urllib.parse.urlsplit(self.path).path
        more = {"Link": '<%s?cursor=%d>; rel="next"' % (here, start + page)} if start + page < len(entries) else {}
        self.json(entries[start : start + page], more)

    def file(self, directory, commit, name, fault):
        path = os.path.join(directory, name)
        if not os.path.isfile(path):
            return self.refuse(404, "EntryNotFound", "Entry not found")
        data = read(path)
        headers = {"X-Repo-Commit": commit}
        if not name.endswith(LARGE):
            return self.content(data, {**headers, "ETag": 'W/"%s"' % git_blob(data)}, fault)
        headers.update({"X-Linked-Etag": '"%s"' % sha256(data), "X-Linked-Size": str(len(data)), "ETag": '"of the pointer"'})
        headers["Location"] = "%s/%s?signature=secret" % (base_of("storage"), os.path.relpath(path, root))
        self.answer(302, b"", headers)

    def content(self, data, headers, fault):
        do, code, whole = fault["do"], 200, len(data)
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if wanted and do != "no_range":
            first = int(wanted[1])
            if first >= whole:
                return self.answer(416, b"", {"Content-Range": "bytes */%d" % whole})
            shown = first + (1 if do == "wrong_range" else 0)
            data, code = data[first:], 206
            headers = {**headers, "Content-Range": "bytes %d-%d/%d" % (shown, whole - 1, whole)}
        if do == "corrupt":
            data = data[: fault["at"]] + bytes([data[fault["at"]] ^ 1]) + data[fault["at"] + 1 :]
        if do == "short":
            data = data[: -fault["by"]]
        if do == "cut":
            self.close_connection = True
            return self.answer(code, data[: fault["after"]], headers, len(data))
        if do == "longer":  # without a length: only what comes can tell
            self.close_connection = True
            self.send_response(code)
            self.end_headers()
            return self.wfile.write(data + b"x" * fault["by"])
        if do == "slow":
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            for at in range(0, len(data), 1000):
                self.wfile.write(data[at : at + 1000])
                self.wfile.flush()
                time.sleep(fault["pause"])
            return None
        return self.answer(code, data, headers)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def finish_request(self, request, client_address):  # in the connection's own thread: a handshake may never come
        if tls is None or self.server_port == ports.get("control"):
            return super().finish_request(request, client_address)
        with tls.wrap_socket(request, server_side=True) as secure:
            super().finish_request(secure, client_address)

    def handle_error(self, request, client_address):
        pass  # who asks may go away at any time, and some tests do


def main():
    names = ["hub", "storage"]
    if len(sys.argv) > 3:
        serve_certificate(sys.argv[3], sys.argv[4])
        names.append("control")
    servers = [Server(("127.0.0.1", 0), Handler) for _ in names]
    ports.update((name, server.server_port) for name, server in zip(names, servers))
    for server in servers[1:]:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    with open(sys.argv[2] + ".part", "w") as f:
        f.write(" ".join(str(ports[name]) for name in names) + "\n")
    os.rename(sys.argv[2] + ".part", sys.argv[2])
    servers[0].serve_forever()


if __name__ == "__main__":
    main()
