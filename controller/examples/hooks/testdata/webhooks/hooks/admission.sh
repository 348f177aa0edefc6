#!/usr/bin/env bash
# Lets each beacon shine, and denies a colour that a ConfigMap named "forbidden" of its namespace has.
set -euo pipefail

rules() {
  cat <<YAML
  rules:
  - apiGroups: [hooks.example.com]
    apiVersions: [v1]
    operations: [CREATE, UPDATE]
    resources: [beacons]
    scope: Namespaced
  matchConditions:
  - name: not-exempt
    expression: "request.name != 'exempt'"
YAML
}

if [[ ${1:-} == --config ]]; then
  cat <<YAML
configVersion: v1
kubernetes:
- name: forbidden
  kind: ConfigMap
  nameSelector: [forbidden]
  executeHookOnSynchronization: false
  executeHookOnEvent: []
kubernetesValidating:
- name: colours.hooks.example.com
  includeSnapshotsFrom: [forbidden]
  labelSelector:
    matchExpressions: [{key: hooks-unchecked, operator: DoesNotExist}]
$(rules)
kubernetesMutating:
- name: shine.hooks.example.com
$(rules)
YAML
  exit 0
fi

case $(jq -r '.[0].type' "$BINDING_CONTEXT_PATH") in
  Mutating)
    patch=$(base64 -w 0 <<< '[{"op": "add", "path": "/spec/shines", "value": true}]')
    echo "{\"allowed\": true, \"patch\": \"$patch\"}" > "$ADMISSION_RESPONSE_PATH"
    ;;
  Validating)
    jq '.[0] | .review.request as $request
      | any(.snapshots.forbidden[].object; .metadata.namespace == $request.namespace and .data.colour == $request.object.spec.colour)
      | if . then {allowed: false, message: "\($request.object.spec.colour) is forbidden here"} else {allowed: true, warnings: ["colours fade"]} end' \
      "$BINDING_CONTEXT_PATH" > "$VALIDATING_RESPONSE_PATH"
    ;;
esac
