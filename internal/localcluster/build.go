package localcluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gofrs/flock"
	"golang.org/x/mod/semver"
)

const (
	controlPlaneName = "controlplane"
	nodeServicesName = "node"
	kwokPackage      = "sigs.k8s.io/kwok/cmd/kwok"
)

// These settings determine how the binaries are built. All of them go into the hash of the build.
var (
	buildEnvironment = []string{"CGO_ENABLED=0", "GOWORK=off"}
	buildFlags       = []string{"-mod=readonly", "-trimpath"}
	linkerFlags      = "-s -w"
	// versionPackages lists the packages into which the linker writes the version of Kubernetes.
	// Without the version, clients cannot tell which server they talk to.
	versionPackages = []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"}
	// stageFiles lists the files of kwok's module that define the behaviour of its nodes, Pods
	// and volumes.
	stageFiles = []string{
		"node/fast/node-initialize.yaml",
		"node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
		"pod/fast/pod-ready.yaml",
		"pod/fast/pod-complete.yaml",
		"pod/fast/pod-delete.yaml",
		"volume/fast/pv-bind.yaml",
		"volume/fast/pv-delete.yaml",
		"volume/fast/pvc-provision.yaml",
		"volume/fast/pvc-delete.yaml",
	}
)

// builder builds the missing entries of target, a directory with the layout of
// KUBEBUILDER_ASSETS. Every entry is built elsewhere and then renamed, so that each entry in
// target is complete.
type builder struct {
	options   Options
	source    source
	target    string
	temporary string // the directory of entries under construction
}

// build builds programs and kwok's stages, unless an earlier build did, and returns their
// directory.
func build(ctx context.Context, options Options, programs []string) (string, error) {
	source, err := findSource(options.CacheDir)
	if err != nil {
		return "", err
	}
	if source, err = source.withKubernetes(options.Kubernetes); err != nil {
		return "", err
	}
	hash, err := source.hash()
	if err != nil {
		return "", err
	}
	b := &builder{options: options, source: source, target: filepath.Join(options.CacheDir, "controlplane-"+hash)}
	wanted := entriesOf(programs)
	if len(b.missing(wanted)) == 0 {
		return b.target, nil
	}
	if _, err := exec.LookPath("go"); err != nil {
		return "", fmt.Errorf("find go: %w; a build of the control plane needs Go: install it (https://go.dev/dl) and put it on PATH, or %s", err, wayOut())
	}
	if err := os.MkdirAll(b.target, 0o755); err != nil {
		return "", cacheError(options.CacheDir, err)
	}
	lock, err := b.lock(ctx)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := b.make(ctx, b.missing(wanted)); err != nil {
		return "", err
	}
	return b.target, nil
}

// entriesOf returns the entries of the target directory that programs need. The components of the
// control plane are links to one entry.
func entriesOf(programs []string) []string {
	var entries []string
	for _, name := range programs {
		switch {
		case slices.Contains(components, name), slices.Contains(nodeComponents, name):
			name = controlPlaneName
		case slices.Contains(nodeServices, name):
			name = nodeServicesName
		}
		if !slices.Contains(entries, name) {
			entries = append(entries, name)
		}
	}
	return entries
}

func (b *builder) missing(entries []string) []string {
	return slices.DeleteFunc(slices.Clone(entries), func(name string) bool {
		_, err := os.Stat(filepath.Join(b.target, name))
		return err == nil
	})
}

// lock acquires the build lock. It waits while another process builds.
func (b *builder) lock(ctx context.Context) (*flock.Flock, error) {
	lock := flock.New(filepath.Join(b.options.CacheDir, "build.lock"))
	locked, err := lock.TryLock()
	if err == nil && !locked {
		b.options.Progress(Progress{Phase: "waiting for another process that builds the control plane"})
		_, err = lock.TryLockContext(ctx, lockRetry)
	}
	if err != nil {
		return nil, cacheError(b.options.CacheDir, fmt.Errorf("lock %s: %w", lock.Path(), err))
	}
	return lock, nil
}

// make builds entries of the target. The caller holds the lock.
func (b *builder) make(ctx context.Context, entries []string) (err error) {
	if len(entries) == 0 {
		return nil // Another process built them while this one waited.
	}
	if err := b.removeLeftovers(); err != nil {
		return err
	}
	if b.temporary, err = os.MkdirTemp(b.options.CacheDir, "build-"); err != nil {
		return cacheError(b.options.CacheDir, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.temporary)) }()
	for _, entry := range entries {
		output := filepath.Join(b.temporary, entry)
		switch entry {
		case controlPlaneName:
			err = b.makeControlPlane(ctx, output)
		case kwokName:
			err = b.goBuild(ctx, nested[1], kwokPackage, output, "-ldflags="+linkerFlags)
		case stagesName:
			err = b.copyStages(ctx, output)
		case nodeServicesName:
			err = b.goBuild(ctx, nested[2], ".", output, "-ldflags="+linkerFlags)
			err = errors.Join(err, b.link(nodeServicesName, nodeServices))
		case pauseName:
			err = b.goBuild(ctx, nested[2], "./pause", output, "-ldflags="+linkerFlags)
		}
		if err == nil {
			err = os.Rename(output, filepath.Join(b.target, entry))
		}
		if err != nil {
			return cacheError(b.options.CacheDir, fmt.Errorf("build %s: %w", entry, err))
		}
	}
	return nil
}

// removeLeftovers removes the temporary directories of killed builds. The caller holds the lock,
// so no other build uses them.
func (b *builder) removeLeftovers() error {
	leftovers, err := filepath.Glob(filepath.Join(b.options.CacheDir, "build-*"))
	for _, path := range leftovers {
		err = errors.Join(err, os.RemoveAll(path))
	}
	if err != nil {
		return cacheError(b.options.CacheDir, fmt.Errorf("remove the leftovers of an interrupted build: %w", err))
	}
	return nil
}

// cacheError adds a way out to errors of the disk that holds the cache directory. It matches the
// text, because errors of the go command are only text.
func cacheError(directory string, err error) error {
	says := func(number syscall.Errno) bool { return strings.Contains(err.Error(), number.Error()) }
	switch {
	case says(syscall.ENOSPC):
		return fmt.Errorf("the disk of the cache directory %s or of Go's build cache is full: %w; "+
			"free some space (a first build needs 3 GB), or set XDG_CACHE_HOME to a directory on another disk", directory, err)
	case says(syscall.EACCES), says(syscall.EPERM), says(syscall.EROFS), says(syscall.ENOTDIR):
		return fmt.Errorf("the cache directory %s cannot be written: %w; "+
			"make it writable, or set XDG_CACHE_HOME to a directory that is", directory, err)
	}
	return err
}

func (b *builder) makeControlPlane(ctx context.Context, output string) error {
	version, err := b.source.kubernetesVersion()
	if err != nil {
		return err
	}
	flags := linkerFlags
	for _, path := range versionPackages {
		major, minor, _ := strings.Cut(strings.TrimPrefix(semver.MajorMinor(version), "v"), ".")
		flags += fmt.Sprintf(" -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", path, version, major, minor)
	}
	if err := b.goBuild(ctx, nested[0], ".", output, append(b.source.modfileFlags(), "-ldflags="+flags)...); err != nil {
		return err
	}
	return b.link(controlPlaneName, slices.Concat(components, nodeComponents))
}

// link makes links to a binary of the target. They dangle until the binary is renamed. An
// interrupted build may have left some of them.
func (b *builder) link(binary string, names []string) error {
	for _, name := range names {
		if err := os.Symlink(binary, filepath.Join(b.target, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// copyStages copies kwok's stage files from its module.
func (b *builder) copyStages(ctx context.Context, output string) error {
	var directory bytes.Buffer
	err := b.runGo(ctx, nested[1], &directory, b.downloads(kwokName), "list", "-mod=readonly", "-f={{.Module.Dir}}", kwokPackage)
	if err != nil {
		return err
	}
	if err := os.Mkdir(output, 0o755); err != nil {
		return err
	}
	for _, name := range stageFiles {
		content, err := os.ReadFile(filepath.Join(strings.TrimSpace(directory.String()), "kustomize", "stage", filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(output, filepath.Base(name)), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
