#!/usr/bin/env bash
# Converts beacons: v1 has one colour, and v2 has a list of colours.
set -euo pipefail

if [[ ${1:-} == --config ]]; then
  cat <<YAML
configVersion: v1
kubernetesCustomResourceConversion:
- name: beacons
  crdName: beacons.hooks.example.com
  conversions:
  - {fromVersion: v1, toVersion: hooks.example.com/v2}
  - {fromVersion: hooks.example.com/v2, toVersion: hooks.example.com/v1}
YAML
  exit 0
fi

jq '.[0] | .toVersion as $to | {convertedObjects: [.review.request.objects[]
  | .apiVersion = $to
  | if ($to | endswith("/v2")) then .spec.colours = [.spec.colour] | del(.spec.colour)
    else .spec.colour = .spec.colours[0] | del(.spec.colours) end]}' \
  "$BINDING_CONTEXT_PATH" > "$CONVERSION_RESPONSE_PATH"
