#!/usr/bin/env bash
# Counts the Pods with the label role=worker, in a queue of its own, whenever one comes or goes.

if [[ ${1:-} == --config ]]; then
  cat <<YAML
configVersion: v1
kubernetes:
- name: workers
  kind: pod
  executeHookOnEvent: [ Added, Deleted ]
  labelSelector:
    matchLabels:
      role: worker
  jqFilter: .metadata.name
  keepFullObjectsInMemory: false
  group: counting
  queue: counting
YAML
  exit 0
fi

echo "workers: $(grep -o '"filterResult"' "$BINDING_CONTEXT_PATH" | wc -l)"
