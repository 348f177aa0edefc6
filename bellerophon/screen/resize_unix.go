//go:build unix

package screen

import (
	"os"
	"os/signal"
	"syscall"
)

// Resizes returns a channel that receives when the terminal of the program has changed its size, and a function that ends that.
func Resizes() (resized <-chan os.Signal, stop func()) {
	made := make(chan os.Signal, 1)
	signal.Notify(made, syscall.SIGWINCH)
	return made, func() { signal.Stop(made) }
}
