// Package container syncs files to the containers of pods and runs commands there, by shell scripts over pods/exec.
//
// A sync is one script. It notes the files that it may touch before it touches the first, and replaces the list of
// synced files after the last. So whenever a sync ends early, the next one repairs what it has left.
package container
