#!/usr/bin/env python3
"""tracker_server.py PORT_FILE - a server on the loopback that is told things: a webhook at /hook..., and MLflow's REST API 2.0 as far as a
run and a study use it, with MLflow's own refusals. The port is written to PORT_FILE.

    PUT /control/faults   {"match": REGEX of the path, "status": 503, "times": N, "delay": seconds, "headers": {..}}; times -1: until changed
    PUT /control/need     {"authorization": "Basic ..."}: others are answered 401;
                          {"place": "s3://..."}: where artifacts of runs are to be, other than here
    GET /control/log      the requests so far, a JSON list of {"method", "path", "body", "headers"}; forgets them
    GET /control/store    experiments and runs, with every metric that was logged, in order

Python's standard library only.
"""

import http.server
import json
import os
import re
import sys
import threading
import time
import urllib.parse

lock = threading.Lock()
log, faults, need = [], {}, {}
experiments, runs, artifacts = {"Default": "0"}, {}, {}


class Refused(Exception):
    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.body = status, {"error_code": code, "message": message}


def invalid(message):
    return Refused(400, "INVALID_PARAMETER_VALUE", message)


def run_of(run_id):
    if run_id not in runs:
        raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"Run with id={run_id} not found")
    if runs[run_id]["lifecycle_stage"] != "active":
        raise invalid(f"The run {run_id} must be in the 'active' state")
    return runs[run_id]


def info(run_id):
    run = runs[run_id]
    return {"info": {"run_id": run_id, "experiment_id": run["experiment_id"], "status": run["status"], "run_name": run["name"],
                     "artifact_uri": f"{need.get('place', 'mlflow-artifacts:/')}{run['experiment_id']}/{run_id}/artifacts", "lifecycle_stage": run["lifecycle_stage"]},
            "data": {"tags": [{"key": k, "value": v} for k, v in run["tags"].items()]}}


METRIC = re.compile(r"[\w\-. :/]{1,250}")


def log_batch(body):
    run = run_of(body["run_id"])
    metrics, params, tags = (body.get(k, []) for k in ("metrics", "params", "tags"))
    if len(metrics) > 1000 or len(params) > 100 or len(tags) > 100 or len(metrics) + len(params) + len(tags) > 1000:
        raise invalid("A batch logging request can contain at most ...")
    for p in params:
        if run["params"].get(p["key"], p["value"]) != p["value"]:
            raise invalid(f"Changing param values is not allowed. Param with key='{p['key']}' was already logged")
        if len(p["key"]) > 250 or not isinstance(p["value"], str):
            raise invalid("a param")
    for m in metrics:
        if not METRIC.fullmatch(m["key"]) or not isinstance(m["timestamp"], int) or not isinstance(m["step"], int):
            raise invalid(f"Invalid metric {m}")
        if not isinstance(m["value"], (int, float)) and m["value"] not in ("NaN", "Infinity", "-Infinity"):
            raise invalid(f"Invalid value {m}")
    run["params"].update({p["key"]: p["value"][:6000] for p in params})
    run["tags"].update({t["key"]: t["value"] for t in tags})
    for m in metrics:
        point = [m["key"], m["step"], m["timestamp"], m["value"]]
        if point not in run["metrics"]:  # a line that is equal in all is stored once
            run["metrics"].append(point)
    return {}


def search(body):
    """Filters of the one form that is sent: tags.`K` = 'V' and ..."""
    wanted = dict(re.findall(r"tags\.`([^`]*)` = '([^']*)'", body["filter"]))
    rest = re.sub(r"tags\.`[^`]*` = '[^']*'|\s+|and", "", body["filter"])
    if rest or not wanted:
        raise invalid(f"Invalid filter {body['filter']}")
    found = [r for r, run in runs.items() if run["experiment_id"] in body["experiment_ids"] and run["lifecycle_stage"] == "active"
             and all(run["tags"].get(k) == v for k, v in wanted.items())]
    return {"runs": [info(r) for r in found[: body.get("max_results", 1000)]]}


def create_run(body):
    if body["experiment_id"] not in experiments.values():
        raise Refused(404, "RESOURCE_DOES_NOT_EXIST", "No Experiment with id=" + body["experiment_id"])
    run_id = "%032x" % (len(runs) + 1)
    runs[run_id] = {"experiment_id": body["experiment_id"], "name": body["run_name"], "status": "RUNNING", "lifecycle_stage": "active",
                    "start_time": body["start_time"], "end_time": None, "tags": {t["key"]: t["value"] for t in body.get("tags", [])},
                    "params": {}, "metrics": []}
    return {"run": info(run_id)}


def update(body):
    run = run_of(body["run_id"])
    if body.get("status") in ("RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED"):
        run["status"] = body["status"]
    run["end_time"] = body.get("end_time", run["end_time"])
    return {"run_info": info(body["run_id"])["info"]}


def mlflow(method, path, query, body):
    if (method, path) == ("GET", "experiments/get-by-name"):
        name = query["experiment_name"][0]
        if name not in experiments:
            raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"Could not find experiment with name '{name}'")
        return {"experiment": {"experiment_id": experiments[name], "name": name, "artifact_location": "mlflow-artifacts:/" + experiments[name]}}
    if (method, path) == ("POST", "experiments/create"):
        if body["name"] in experiments:
            raise Refused(400, "RESOURCE_ALREADY_EXISTS", "Experiment already exists")
        experiments[body["name"]] = str(len(experiments))
        return {"experiment_id": experiments[body["name"]]}
    if (method, path) == ("GET", "runs/get"):
        if query["run_id"][0] not in runs:
            raise Refused(404, "RESOURCE_DOES_NOT_EXIST", "no run")
        return {"run": info(query["run_id"][0])}
    if (method, path) == ("POST", "runs/set-tag"):
        run_of(body["run_id"])["tags"][body["key"]] = body["value"]
        return {}
    if (method, path) == ("POST", "runs/delete"):
        run_of(body["run_id"])["lifecycle_stage"] = "deleted"
        return {}
    known = {"runs/create": create_run, "runs/log-batch": log_batch, "runs/update": update, "runs/search": search}
    if method == "POST" and path in known:
        return known[path](body)
    raise Refused(404, "ENDPOINT_NOT_FOUND", f"{method} {path}")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body, headers=()):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def control(self, path, data):
        if path == "log":
            body = list(log)
            log.clear()
            return body
        if path == "store":
            return {"experiments": experiments, "runs": runs, "artifacts": {k: v.decode(errors="replace") for k, v in artifacts.items()}}
        ({"faults": faults, "need": need}[path]).clear()
        {"faults": faults, "need": need}[path].update(json.loads(data))
        return {}

    def fault(self, path):
        with lock:
            if not faults or not re.search(faults["match"], path) or faults.get("times", 1) == 0:
                return None
            if faults.get("times", 1) > 0:
                faults["times"] = faults.get("times", 1) - 1
            fault = dict(faults)
        time.sleep(fault.get("delay", 0))
        return fault if "status" in fault else None

    def serve(self):
        url = urllib.parse.urlsplit(self.path)
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if url.path.startswith("/control/"):
            with lock:
                return self.answer(200, self.control(url.path[9:], data))
        with lock:
            log.append({"method": self.command, "path": self.path, "body": data.decode(errors="replace"), "headers": dict(self.headers)})
        fault = self.fault(self.path)
        if fault:
            return self.answer(fault["status"], {"error_code": "TEMPORARILY_UNAVAILABLE", "message": "a fault"}, fault.get("headers", {}))
        if "authorization" in need and self.headers.get("Authorization") != need["authorization"]:
            return self.answer(401, {"message": "You are not authenticated"})
        with lock:
            try:
                return self.answer(200, self.reply(url, data))
            except Refused as refused:
                return self.answer(refused.status, refused.body)

    def reply(self, url, data):
        if url.path.startswith("/hook"):
            return {"ok": True}
        if url.path.startswith("/api/2.0/mlflow-artifacts/artifacts/") and self.command == "PUT":
            artifacts[urllib.parse.unquote(url.path[len("/api/2.0/mlflow-artifacts/artifacts/") :])] = data
            return {}
        if not url.path.startswith("/api/2.0/mlflow/"):
            raise Refused(404, "ENDPOINT_NOT_FOUND", url.path)
        return mlflow(self.command, url.path[len("/api/2.0/mlflow/") :], urllib.parse.parse_qs(url.query), json.loads(data) if data else {})

    do_GET = do_POST = do_PUT = do_PATCH = serve


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(sys.argv[1] + ".part", "w") as out:
    out.write(str(server.server_address[1]))
os.rename(sys.argv[1] + ".part", sys.argv[1])
server.serve_forever()
