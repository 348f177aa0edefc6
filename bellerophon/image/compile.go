package image

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// operatorPackage is the program of the image.
const operatorPackage = "github.com/bellerophon-io/bellerophon/bellerophon/bellerophon-operator"

// Compile builds the operator for an image with the go command. The working directory must be in a
// checkout of Bellerophon, or in a module that requires it.
func Compile(ctx context.Context, output string) error {
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o="+output, operatorPackage)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH, "GOFLAGS=")
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build the operator: %w; run it in a checkout of Bellerophon, or pass a program that is built already: %s", err, strings.TrimSpace(string(said)))
	}
	return nil
}
