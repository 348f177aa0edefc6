package goproxy

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/bellerophon-io/bellerophon/tools/release/checkout"
)

// Platform is an operating system and a processor, by the names that Go gives them.
type Platform struct{ OS, Arch string }

func (p Platform) String() string { return p.OS + "_" + p.Arch }

// Installer installs programs of a release. It has a module cache of its own, because the version in the user's cache
// must be the published one.
type Installer struct {
	source  checkout.Checkout
	version string
	gopath  string
	setting []string
}

// NewInstaller writes the published modules below a folder, and returns an installer for them. Other modules come
// from the module cache of the user, or else from the usual proxy. cache is the build cache; if empty, it is the one of the user.
func NewInstaller(ctx context.Context, source checkout.Checkout, version, folder, cache string) (*Installer, error) {
	proxy, gopath := filepath.Join(folder, "proxy"), filepath.Join(folder, "gopath")
	if err := Write(ctx, source, version, proxy); err != nil {
		return nil, err
	}
	said, err := exec.CommandContext(ctx, "go", "env", "-json", "GOPROXY", "GOMODCACHE", "GOCACHE").Output()
	if err != nil {
		return nil, fmt.Errorf("ask go for its settings: %w; install Go, and put it on PATH", err)
	}
	var usual struct{ GOPROXY, GOMODCACHE, GOCACHE string }
	if err := json.Unmarshal(said, &usual); err != nil {
		return nil, fmt.Errorf("ask go for its settings: %w", err)
	}
	if cache == "" {
		cache = usual.GOCACHE
	}
	downloaded := filepath.Join(usual.GOMODCACHE, "cache", "download")
	return &Installer{source: source, version: version, gopath: gopath, setting: []string{
		"GOPROXY=file://" + filepath.ToSlash(proxy) + ",file://" + filepath.ToSlash(downloaded) + "," + usual.GOPROXY,
		"GOSUMDB=off", // Install compares with the go.sum of the checkout.
		"GOPATH=" + gopath, "GOMODCACHE=" + filepath.Join(gopath, "mod"), "GOCACHE=" + cache,
		"GOBIN=", "GOWORK=off", "GOFLAGS=-modcacherw",
		"CGO_ENABLED=0", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0",
	}}, nil
}

// Modules returns the module cache, which holds the source of all that the installed programs have.
func (i *Installer) Modules() string { return filepath.Join(i.gopath, "mod") }

// Install builds a program of the module bellerophon for a platform, as `go install` does, and returns its file.
func (i *Installer) Install(ctx context.Context, pkg string, platform Platform) (string, error) {
	target := checkout.Library + "/" + pkg + "@" + i.version
	command := exec.CommandContext(ctx, "go", "install", "-trimpath", "-ldflags=-s -w -buildid=", target)
	command.Dir = filepath.Dir(i.gopath) // It is in no module.
	command.Env = append(append(os.Environ(), i.setting...), "GOOS="+platform.OS, "GOARCH="+platform.Arch)
	if said, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("install %s for %s: %w: %s", target, platform, err, strings.TrimSpace(string(said)))
	}
	program := filepath.Join(i.gopath, "bin", filepath.Base(pkg))
	if platform != (Platform{runtime.GOOS, runtime.GOARCH}) {
		program = filepath.Join(i.gopath, "bin", platform.String(), filepath.Base(pkg))
	}
	return program, i.checkSums(program)
}

// checkSums compares the sums of the modules in a program with the go.sum of the checkout.
func (i *Installer) checkSums(program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read the modules of %s: %w", program, err)
	}
	content, err := os.ReadFile(filepath.Join(i.source.Root, "bellerophon", "go.sum"))
	if err != nil {
		return fmt.Errorf("read the sums of the modules: %w", err)
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(content)) {
		known[strings.TrimSpace(line)] = true
	}
	var wrong []error
	for _, dependency := range info.Deps {
		if dependency.Path != checkout.Library && !known[dependency.Path+" "+dependency.Version+" "+dependency.Sum] {
			wrong = append(wrong, fmt.Errorf("%s has a module that bellerophon/go.sum does not have: %s %s %s", program, dependency.Path, dependency.Version, dependency.Sum))
		}
	}
	return errors.Join(wrong...)
}
