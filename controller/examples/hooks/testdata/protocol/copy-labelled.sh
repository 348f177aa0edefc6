#!/usr/bin/env bash
# It keeps a copy of each ConfigMap with the label hooks-copy, and deletes the copy with it.
set -euo pipefail
source "$(dirname "$0")/common/functions.sh"

config() {
  cat <<YAML
configVersion: v1
kubernetes:
- name: present
  apiVersion: v1
  kind: cm
  executeHookOnEvent: [Added, Modified]
  labelSelector:
    matchLabels: {hooks-copy: "yes"}
  jqFilter: .data
- name: gone
  apiVersion: v1
  kind: ConfigMap
  executeHookOnEvent:
  - Deleted
  executeHookOnSynchronization: false
  labelSelector:
    matchExpressions:
    - {key: hooks-copy, operator: In, values: ["yes"]}
  keepFullObjectsInMemory: true
YAML
}

copy() {
  jq '{operation: "CreateOrUpdate", object: {
    apiVersion: "v1", kind: "ConfigMap", data,
    metadata: {name: (.metadata.name + "-copy"), namespace: .metadata.namespace, labels: {"hooks-copied": "yes"}}}}' | write_operation
}

trigger() {
  local count i
  count=$(jq length "$BINDING_CONTEXT_PATH")
  for ((i = 0; i < count; i++)); do
    local context
    context=$(jq -c ".[$i]" "$BINDING_CONTEXT_PATH")
    case $(jq -r '.binding + " " + .type' <<< "$context") in
      "present Synchronization") jq -c '.objects[].object' <<< "$context" | while read -r object; do copy <<< "$object"; done ;;
      "present Event") jq .object <<< "$context" | copy ;;
      "gone Event")
        write_operation <<YAML
---
operation: DeleteInBackground
kind: ConfigMap
namespace: $(jq -r .object.metadata.namespace <<< "$context")
name: $(jq -r .object.metadata.name <<< "$context")-copy
YAML
        ;;
    esac
  done
}

run "$@"
