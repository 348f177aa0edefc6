//go:build !unix

package screen

import "os"

// Resizes returns a channel that never receives: this system has no signal for a terminal that changes its size.
func Resizes() (resized <-chan os.Signal, stop func()) { return nil, func() {} }
