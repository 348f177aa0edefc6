package clustertest

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gofrs/flock"

	"github.com/bellerophon-io/bellerophon/internal/localcluster"
)

const (
	// goCache is the build cache in the image of LoadGo.
	goCache = "var/cache/go-build"
	// goWarm is the package whose compiled dependencies the cache has. Their
	// compilation takes half a minute, which is once per machine.
	goWarm = "net/http"
)

// goParts lists what a build needs of GOROOT.
var goParts = []string{"VERSION", "go.env", "bin", "lib/time", "pkg/include", "pkg/tool", "src"}

// LoadGo loads an image of the given name into the real node of a cluster. It has what an image of
// LoadSystem has, and this machine's Go toolchain without cgo. Its build cache has net/http and what that
// package imports. A first call on a machine compiles these packages. Builds may import the standard library
// alone.
func LoadGo(t testing.TB, cluster *localcluster.Cluster, name string, extra ...string) {
	t.Helper()
	key := fmt.Sprintf("%s of %q with Go", name, extra)
	loadOnce(t, cluster, key, func(archive string) error { return writeGoImage(t.Context(), archive, name, extra) })
}

func writeGoImage(ctx context.Context, archive, name string, extra []string) (err error) {
	image, err := systemImage(name, extra)
	if err != nil {
		return err
	}
	root, err := goRoot(ctx)
	if err != nil {
		return err
	}
	userCache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	cache := filepath.Join(userCache, "bellerophon", "go-image")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	// Another process must not write into the cache while this one copies it.
	lock := flock.New(filepath.Join(cache, "image.lock"))
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Path(), err)
	}
	defer lock.Close()
	build := filepath.Join(cache, "build")
	if err := warm(ctx, root, build); err != nil {
		return err
	}
	// The paths are as on this machine, because they are in the keys of the cache.
	image.Env = []string{
		"PATH=/bin:" + root + "/bin", "GOROOT=" + root, "GOCACHE=/" + goCache, "GOPATH=/tmp/go",
		"GOFLAGS=-mod=mod", "GOPROXY=off", "GOTOOLCHAIN=local", "GOWORK=off", "CGO_ENABLED=0",
	}
	for _, part := range goParts {
		if image.Files, err = appendTree(image.Files, path.Join(strings.TrimPrefix(root, "/"), part), filepath.Join(root, part), 0o755); err != nil {
			return err
		}
	}
	// Any user of a container may add to the cache.
	if image.Files, err = appendTree(image.Files, goCache, build, 0o777); err != nil {
		return err
	}
	return localcluster.WriteImage(archive, image)
}

// goRoot returns the directory of this machine's Go.
func goRoot(ctx context.Context) (string, error) {
	said, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find the directory of Go: %w", err)
	}
	return strings.TrimSpace(string(said)), nil
}

// warm compiles goWarm with a build cache, in the environment of the image.
func warm(ctx context.Context, root, cache string) error {
	command := exec.CommandContext(ctx, filepath.Join(root, "bin", "go"), "build", goWarm)
	command.Dir = root
	command.Env = append(os.Environ(), "GOROOT="+root, "GOCACHE="+cache, "GOFLAGS=", "GOTOOLCHAIN=local", "GOWORK=off", "CGO_ENABLED=0")
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s for the image: %w: %s", goWarm, err, said)
	}
	return nil
}

// appendTree adds a file or directory of this machine to the files of an image, without tests and the
// source of Go's own commands. A distribution may have symbolic links as parts of GOROOT.
func appendTree(files []localcluster.ImageFile, to, from string, mode fs.FileMode) ([]localcluster.ImageFile, error) {
	from, err := filepath.EvalSymlinks(from)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		target := path.Join(to, filepath.ToSlash(relative))
		switch base := entry.Name(); {
		case entry.IsDir() && (base == "testdata" || strings.HasSuffix(target, "/src/cmd")):
			return filepath.SkipDir
		case entry.IsDir():
			files = append(files, localcluster.ImageFile{Path: target, Mode: fs.ModeDir | mode})
		case strings.HasSuffix(base, "_test.go"):
		default:
			info, err := os.Stat(name) // A symbolic link becomes what it leads to.
			if err != nil {
				return err
			}
			if info.Mode().IsRegular() {
				files = append(files, localcluster.ImageFile{Path: target, Mode: info.Mode().Perm() | mode&0o666, Source: name})
			}
		}
		return nil
	})
	return files, err
}
