package image

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Compile builds a program for an image with the go command. The working directory must be in a
// checkout of Bellerophon, or in a module that requires it.
func (p Program) Compile(ctx context.Context, output string) error {
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o="+output, programs+p.file)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH, "GOFLAGS=")
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w; run it in a checkout of Bellerophon, or pass a program that is built already: %s", p.file, err, strings.TrimSpace(string(said)))
	}
	return nil
}
