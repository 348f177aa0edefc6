// Package dev runs an application of a devfile in a cluster while its files are edited: it is
// `bellerophon dev`. Files, devfile and cluster are sources of one pipeline, so that no change is
// missed, whatever else is going on.
//
//	devfile, files ──► client ──► Specs ──► controller ──► Deployment, pod ──► Status ──► client
//
// The folders follow that way:
//
//   - project reads and flattens the devfile
//   - worktree describes the files
//   - client writes the Specs and shows the Status
//   - contract defines both ConfigMaps
//   - loop is the controller; manifests applies what the devfile names
//   - container runs commands in pods, and syncs files to them
//   - forward forwards ports
package dev
