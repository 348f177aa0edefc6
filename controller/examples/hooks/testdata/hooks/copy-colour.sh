#!/usr/bin/env bash
# Keeps the ConfigMap "painted" in step with the key colour of the ConfigMap "paint".

if [[ ${1:-} == --config ]]; then
  cat <<'JSON'
{
  "configVersion": "v1",
  "kubernetes": [
    {
      "name": "paint",
      "apiVersion": "v1",
      "kind": "ConfigMap",
      "executeHookOnEvent": ["Added", "Modified"],
      "nameSelector": {"matchNames": ["paint"]},
      "jqFilter": ".data.colour"
    }
  ]
}
JSON
  exit 0
fi

# The contexts are in the order of the events, so the last colour is the one that counts.
colour=$(grep -o '"filterResult":"[a-z]*"' "$BINDING_CONTEXT_PATH" | tail -n 1 | cut -d '"' -f 4)
namespace=$(grep -o '"namespace":"[a-z0-9-]*"' "$BINDING_CONTEXT_PATH" | tail -n 1 | cut -d '"' -f 4)
if [[ -z $colour ]]; then
  exit 0
fi

echo "painting it $colour"
cat > "$KUBERNETES_PATCH_PATH" <<YAML
operation: CreateOrUpdate
object:
  apiVersion: v1
  kind: ConfigMap
  metadata:
    name: painted
    namespace: $namespace
  data:
    colour: $colour
---
operation: JQPatch
apiVersion: v1
kind: ConfigMap
name: painted
namespace: $namespace
jqFilter: .metadata.labels.painted = "by-a-hook"
YAML
