#!/usr/bin/env python3
"""Creates a ConfigMap at the start, and counts its runs."""
import json
import os
import sys

if len(sys.argv) > 1 and sys.argv[1] == "--config":
    print('{"configVersion":"v1", "onStartup": 10}')
    sys.exit(0)

with open(os.environ["BINDING_CONTEXT_PATH"]) as contexts:
    binding = json.load(contexts)[0]["binding"]
with open(os.environ["METRICS_PATH"], "a") as metrics:
    for line in (
        {"name": "hooks_started", "action": "add", "value": 1, "labels": {"binding": binding}},
        {"name": "hooks_start_seconds", "action": "observe", "value": 0.5, "buckets": [1, 2, 5]},
    ):
        print(json.dumps(line), file=metrics)
with open(os.environ["KUBERNETES_PATCH_PATH"], "w") as patches:
    started = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "started-by-python", "namespace": "default"}}
    json.dump({"operation": "CreateIfNotExists", "object": started}, patches, indent=2)
