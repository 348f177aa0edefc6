# Shared by hooks. It is no hook itself, because it is not executable.

# write_operation appends an operation that it reads from its input.
write_operation() {
  cat >> "$KUBERNETES_PATCH_PATH"
}

# run calls config or trigger.
run() {
  if [[ ${1:-} == "--config" ]]; then config; else trigger; fi
}
