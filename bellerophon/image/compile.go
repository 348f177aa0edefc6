package image

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// ProgramIn returns the user's program in a folder. Its name is the last part of its import path.
func ProgramIn(ctx context.Context, folder string) (Program, error) {
	command := exec.CommandContext(ctx, "go", "list", "-f={{.Name}} {{.ImportPath}}", ".")
	command.Dir = folder
	var trouble bytes.Buffer
	command.Stderr = &trouble
	said, err := command.Output()
	if err != nil {
		return Program{}, fmt.Errorf("find the program in %s: %w: %s", folder, err, strings.TrimSpace(trouble.String()))
	}
	kind, imported, _ := strings.Cut(strings.TrimSpace(string(said)), " ")
	if kind != "main" {
		return Program{}, fmt.Errorf("find the program in %s: it is package %s, not package main; give the folder of a program", folder, kind)
	}
	name := path.Base(imported)
	if majorVersion.MatchString(name) && path.Dir(imported) != "." {
		name = path.Base(path.Dir(imported))
	}
	return Program{Image: strings.ToLower(name) + ":dev", file: name, title: name, folder: folder}, nil
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// Name returns the name of the program in its image.
func (p Program) Name() string { return p.file }

// Compile builds a program for an image with the go command. For a program of Bellerophon, the working directory must
// be in a checkout of Bellerophon, or in a module that requires it.
func (p Program) Compile(ctx context.Context, output string) error {
	source, wayOut := programs+p.file, "run it in a checkout of Bellerophon, or pass a program that is built already"
	if p.folder != "" {
		source, wayOut = ".", "run go build in "+p.folder
	}
	output, err := filepath.Abs(output)
	if err != nil {
		return fmt.Errorf("build %s: %w", p.file, err)
	}
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o="+output, source)
	command.Dir = p.folder
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH, "GOFLAGS=")
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w; %s: %s", p.file, err, wayOut, strings.TrimSpace(string(said)))
	}
	return nil
}
