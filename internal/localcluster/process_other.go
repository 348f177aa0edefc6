//go:build !linux

package localcluster

// awaitStopped returns at once, as only Linux can wait for a stop without taking the exit status.
func awaitStopped(int) error { return nil }
