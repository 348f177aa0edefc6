#!/usr/bin/env bash
# Prints a line at the start, and one every ten minutes.

if [[ ${1:-} == --config ]]; then
  cat <<YAML
configVersion: v1
onStartup: 10
schedule:
- name: now and then
  crontab: "*/10 * * * *"
  allowFailure: true
YAML
  exit 0
fi

if grep -q '"onStartup"' "$BINDING_CONTEXT_PATH"; then
  echo "hello from a hook"
else
  echo "still here"
fi
